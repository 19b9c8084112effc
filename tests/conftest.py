"""Every test begins with nothing pending: what another left behind must not be counted in it."""

import pytest

from gradtape.graph.recording import Recording, state


@pytest.fixture(autouse=True)
def fresh_recording():
    state.recording = Recording()
    state.tapes = []
