"""The distributed examples, small."""

import numpy as np
import pytest
from examples import data_parallel_classifier, pde_jacobian_blocks, sweep

import gradtape as gt

pytestmark = pytest.mark.slow

cloudpickle = pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")


@pytest.fixture(autouse=True)
def by_value():
    """Workers cannot import the examples, which are scripts: their functions are sent whole."""
    modules = (data_parallel_classifier, pde_jacobian_blocks, sweep)
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in modules:
        cloudpickle.unregister_pickle_by_value(module)


def test_classifier(ray, tmp_path):
    value, right, report = data_parallel_classifier.train(2, 60, str(tmp_path))
    assert value < 0.65
    assert right > 0.5
    assert report.traced == 0
    assert gt.Checkpointer(tmp_path).latest() == 60


def test_jacobian_of_a_grid(ray, tmp_path):
    u = pde_jacobian_blocks.start(14)
    colours = pde_jacobian_blocks.by_colours(u, str(tmp_path))
    strips = pde_jacobian_blocks.by_strips(u, rows=5)
    whole = gt.prepare_jacobian(pde_jacobian_blocks.interior, u, sparse=True)(u)
    np.testing.assert_allclose(colours.toarray(), whole.toarray(), atol=1e-12)
    np.testing.assert_allclose(strips.toarray(), whole.toarray(), atol=1e-12)


def test_sweep(ray):
    found = sweep.sweep(20)
    assert len(found) == 6
    assert found[0][1] <= found[-1][1]
    again = sweep.sweep(20)
    assert found == again
