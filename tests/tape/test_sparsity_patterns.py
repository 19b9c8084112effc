"""Patterns and pictures, as users ask for them."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp

import gradtape as gt
from gradtape.autodiff.sparse.pattern import Pattern
from gradtape.errors import DtypeError


def test_argnums_and_errors():
    assert gt.sparsity_pattern(lambda a, b: a * b, 1.0, np.zeros(3), argnums=-1).nnz == 3
    with pytest.raises(ValueError, match="argnums 2 with 1 positional"):
        gt.sparsity_pattern(gt.sin, 1.0, argnums=2)
    with pytest.raises(DtypeError, match="argument 0 has dtype int64"):
        gt.sparsity_pattern(gt.sin, np.arange(3))


def test_hessians_are_those_of_scalars():
    with pytest.raises(ValueError, match=r"result of shape \(3,\)"):
        gt.hessian_pattern(gt.sin, np.zeros(3))
    with pytest.raises(ValueError, match="2 tensors"):
        gt.hessian_pattern(lambda p: gt.sum(p[0]), (np.zeros(3), 1.0))


def test_nothing_is_evaluated_and_values_do_not_matter():
    def f(x):
        return x * x + gt.where(x > 0, x, 0.0)

    for value in (0.0, np.nan, 3.0):
        assert gt.sparsity_pattern(f, np.full(3, value)).nnz == 3


def test_python_branches_follow_the_values():
    def f(x):
        return x[:1] * 2.0 if x[0] > 0 else x[1:] * x[0]

    assert gt.sparsity_pattern(f, np.array([1.0, 2.0])).toarray().tolist() == [[True, False]]
    assert gt.sparsity_pattern(f, np.array([-1.0, 2.0])).toarray().tolist() == [[True, True]]


def test_variables_are_constants():
    scale = gt.Variable([1.0, 2.0, 3.0])
    assert gt.sparsity_pattern(lambda x: x * scale, np.zeros(3)).nnz == 3


def test_jacobian_from_seeds_and_positions():
    """The whole way that a Jacobian takes."""
    from gradtape.autodiff.sparse.choose_colouring import colour

    def f(x):
        return gt.sin(x[2:]) * x[:-2] + x[1:-1] ** 2

    x = np.linspace(0.1, 2.0, 40)
    pattern = gt.sparsity_pattern(f, x)
    coloured = colour(pattern)
    assert coloured.forward_count == 3
    _, push = gt.linearize(f, x)
    forward = np.stack([push(seed).numpy() for seed in coloured.forward_seeds(float)])
    found = pattern.with_data(coloured.decompress(forward)).toarray()
    expected = np.stack([push(e).numpy() for e in np.eye(40)], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_spy_as_dots():
    assert gt.spy(np.eye(4)) == "⠑⢄"
    assert gt.spy(np.ones((1, 1))) == "⠁"
    assert gt.spy(sp.eye_array(4)) == "⠑⢄"
    assert gt.spy(np.zeros((4, 2))) == "⠀"


def test_spy_shrinks():
    picture = gt.spy(sp.eye_array(10_000), width=20).splitlines()
    assert len(picture) == 10
    assert {len(line) for line in picture} == {20}
    tall = gt.spy(np.ones((1000, 2)), dots=False, width=10).splitlines()
    assert len(tall) == 10
    assert gt.spy(Pattern((10**6, 10**6), None, dense=True), dots=False, width=3) == "xxx\nxxx\nxxx"


def test_spy_of_empty_patterns():
    assert gt.spy(np.zeros((0, 3)), dots=False) == "..."


def test_plot_without_matplotlib_says_how_to_install_it(monkeypatch):
    # None in sys.modules is what Python raises ImportError for.
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"needs matplotlib.*pip install gradtape\[plot\]"):
        gt.spy(np.eye(2), plot=True)


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    before = matplotlib.get_backend()
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")
    matplotlib.use(before)


@pytest.mark.parametrize("stored", [np.eye(5, 7), sp.eye_array(5, 7)])
def test_spy_draws_the_entries(pyplot, stored, tmp_path):
    axes = gt.spy(stored, plot=True)
    (marks,) = axes.lines
    assert sorted(zip(*marks.get_data(), strict=True)) == [(at, at) for at in range(5)]
    assert axes.get_xlim() == (-0.5, 6.5)
    assert axes.get_ylim() == (4.5, -0.5)
    axes.figure.savefig(tmp_path / "spy.png")
    assert (tmp_path / "spy.png").stat().st_size > 0


def test_spy_draws_a_pattern_that_cannot_be_listed(pyplot):
    axes = gt.spy(Pattern((10**6, 10**5), None, dense=True), plot=True)
    (block,) = axes.images
    assert block.get_extent() == [-0.5, 10**5 - 0.5, 10**6 - 0.5, -0.5]
    assert "1000000" in axes.get_title()


def test_spy_draws_nothing_of_an_empty_pattern(pyplot):
    axes = gt.spy(np.zeros((3, 3)), plot=True)
    assert len(axes.lines[0].get_xdata()) == 0
