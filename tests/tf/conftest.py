"""Every test begins without a graph being built."""

import pytest

from gradtape.tf.base.dispatch import graphs as dispatch
from gradtape.tf.v1 import graphs


@pytest.fixture(autouse=True)
def calls_are_made_at_once():
    yield
    graphs.stop_building()
    graphs.local.probes.clear()
    dispatch.in_use = False
