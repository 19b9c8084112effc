"""Patterns of whole programs: exact where they can be, supersets everywhere, and quick."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import gradtape as gt
from gradtape.autodiff.sparse.detect import detect, index_leaves
from gradtape.errors import SparsityError
from gradtape.ir.node import placeholder
from gradtape.ir.spec import spec
from gradtape.ops.arrays.slicing import along_axis
from gradtape.runtime import tiers


@pytest.fixture(autouse=True, scope="module")
def reference_tier():
    """Patterns are about structure: compiling what is compared with them would take the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiers, "MODE", "off")
        yield


def pattern_of(f, *shape, argnums=0, others=()):
    return gt.sparsity_pattern(f, np.zeros(shape), *others, argnums=argnums)


def dense(f, *shape):
    return pattern_of(f, *shape).toarray()


def band(n, *offsets):
    return sum(np.eye(n, k=offset, dtype=int) for offset in offsets).astype(bool)


def test_elementwise_is_diagonal():
    assert (dense(lambda x: gt.sin(x) * gt.exp(x) + x**3, 5) == np.eye(5, dtype=bool)).all()


def test_broadcasting():
    found = dense(lambda x: x[:, None] * x[None, :], 2)
    assert found.astype(int).tolist() == [[1, 0], [1, 1], [1, 1], [0, 1]]


def test_stencil_is_banded():
    found = dense(lambda x: x[2:] - 2 * x[1:-1] + gt.sin(x[:-2]), 7)
    assert (found == band(7, 0, 1, 2)[:5]).all()


def test_rolled_stencil_wraps_around():
    found = dense(lambda x: gt.roll(x, 1) + gt.roll(x, -1), 5)
    assert (found == band(5, 1, -1, 4, -4)).all()


def test_assignment_replaces_dependence():
    def f(x):
        y = x * 2.0
        y[1:3] = x[0] * x[4:6]
        return y

    found = dense(f, 6)
    expected = np.eye(6, dtype=bool)
    expected[1:3] = False
    expected[1, [0, 4]] = expected[2, [0, 5]] = True
    assert (found == expected).all()


@pytest.mark.parametrize(
    "f",
    [
        gt.floor,
        gt.sign,
        gt.stop_gradient,
        lambda x: gt.cast(x > 0.0, gt.float64),
        lambda x: gt.cast(gt.cast(x, gt.int32), gt.float64),
        lambda x: x**0,
        lambda x: gt.cast(gt.argsort(x), gt.float64),
        lambda x: gt.imag(x),
    ],
)
def test_zero_derivatives_cut(f):
    assert pattern_of(f, 3).nnz == 0


def test_partly_zero_derivatives_cut_one_operand():
    found = dense(lambda x: gt.copysign(x[0], x[1]) + gt.floor_divide(x[2], x[3]), 4)
    assert found.tolist() == [[True, False, False, False]]


def test_where_counts_both_branches():
    found = dense(lambda x: gt.where(gt.asarray([True, False]), x[:2], x[2:]), 4)
    assert found.astype(int).tolist() == [[1, 0, 1, 0], [0, 1, 0, 1]]


def test_reductions_are_dense_along_their_axes():
    rows = np.kron(np.eye(2), np.ones(3)).astype(bool)
    for f in (gt.sum, gt.max, gt.prod, gt.logsumexp, gt.mean, gt.median):
        assert (dense(lambda x, f=f: f(x, axis=1), 2, 3) == rows).all()
    assert pattern_of(lambda x: x - gt.mean(x), 3).dense


def test_cumulative_is_triangular():
    lower = np.tril(np.ones((4, 4), bool))
    assert (dense(lambda x: gt.cumulative_sum(x), 4) == lower).all()
    blocks = np.kron(np.eye(2), lower).astype(bool)
    assert (dense(lambda x: gt.cumulative_prod(x, axis=1), 2, 4) == blocks).all()
    across = np.kron(np.tril(np.ones((3, 3))), np.eye(2)).astype(bool)
    assert (dense(lambda x: gt.cumulative_sum(x, axis=0), 3, 2) == across).all()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: gt.linalg.cholesky(x),
        lambda x: gt.linalg.inv(x),
        lambda x: gt.linalg.eigh(x)[1],
        lambda x: gt.fft.fftn(x, axes=(1, 2)),
        lambda x: gt.sort(gt.reshape(x, (2, 4)), axis=1),
        lambda x: gt.matmul(gt.matmul(x, x), x),
    ],
)
def test_batches_are_blocks(f):
    eyes = np.stack([np.eye(2), 2 * np.eye(2)])
    found = gt.sparsity_pattern(f, eyes).toarray()
    assert (found == np.kron(np.eye(2), np.ones((4, 4))).astype(bool)).all()


def test_matrix_product_with_constants_is_dense_along_what_is_summed():
    found = dense(lambda x: gt.matmul(gt.asarray(np.eye(3)), x), 3, 2)
    assert (found == np.kron(np.ones((3, 3)), np.eye(2)).astype(bool)).all()


def test_solve_keeps_columns_apart():
    found = dense(lambda x: gt.linalg.solve(gt.asarray(np.eye(3)), x), 3, 2)
    assert (found == np.kron(np.ones((3, 3)), np.eye(2)).astype(bool)).all()


def assembled(x, elements):
    """What a finite element code does: gather, combine, scatter."""
    local = x[elements]
    flux = local * gt.sum(local, axis=1, keepdims=True)
    return gt.scatter_add(gt.zeros(x.shape), elements.reshape(-1), gt.reshape(flux, (-1,)))


def test_two_meshes_give_two_patterns():
    one, other = np.array([[0, 1], [1, 2]]), np.array([[0, 2], [2, 3]])
    found = [pattern_of(assembled, 4, others=(mesh,)).toarray() for mesh in (one, other)]
    for mesh, pattern in zip((one, other), found, strict=True):
        expected = np.zeros((4, 4), bool)
        for element in mesh:
            expected[np.ix_(element, element)] = True
        assert (pattern == expected).all()
    assert (found[0] != found[1]).any()


def test_indices_may_be_computed():
    def f(x, indices):
        return x[gt.asarray(indices) + 1]

    pattern = pattern_of(f, 4, others=(np.array([2, 0]),))
    assert pattern.toarray().astype(int).tolist() == [[0, 0, 0, 1], [0, 1, 0, 0]]
    assert pattern.notes == ()


def test_indices_from_the_source_are_dense_along_the_axis():
    pattern = pattern_of(lambda x: x[gt.argmax(x, axis=0)[0]], 3, 2)
    assert (pattern.toarray() == np.kron(np.ones((1, 3)), np.eye(2)).astype(bool)).all()
    assert "positions" in pattern.notes[0]


def test_index_leaves_are_listed():
    x = placeholder(spec((4,), np.dtype(float)))
    assert index_leaves([along_axis(x, 0, 1, 2)], x) == []


def test_moving_slices():
    def f(x):
        return gt.stack([x[i : i + 2] for i in range(40)])

    found = dense(f, 41)
    expected = np.zeros((80, 41), bool)
    for i in range(40):
        expected[2 * i, i] = expected[2 * i + 1, i + 1] = True
    assert (found == expected).all()


def test_many_parts_are_joined_at_once():
    found = dense(lambda x: gt.concat([part * 2.0 for part in gt.unstack(x)]), 5, 3)
    assert (found == np.eye(15, dtype=bool)).all()


def test_checkpoints_are_transparent_and_custom_gradients_are_not():
    @gt.custom_gradient
    def f(x):
        return x * x, lambda dy: dy

    assert pattern_of(gt.checkpoint(lambda x: gt.sin(x) * x), 3).nnz == 3
    assert pattern_of(f, 3).dense


def test_nests():
    found = gt.sparsity_pattern(
        lambda p: {"a": p["u"] * 2.0, "b": gt.sum(p["v"])}, {"u": np.zeros(3), "v": np.zeros(2)}
    )
    assert (found["a"]["u"].nnz, found["a"]["v"].nnz) == (3, 0)
    assert found["b"]["v"].shape == (1, 2)
    assert found["b"]["v"].dense


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_scalars_and_empty_sources(shape):
    pattern = gt.sparsity_pattern(lambda x: gt.sin(x) + gt.sum(x), np.zeros(shape))
    size = int(np.prod(shape))
    assert pattern.shape == (size, size)
    assert pattern.toarray().all()


def test_budget_gives_up_and_says_so():
    x = placeholder(spec((50,), np.dtype(float)))
    y = along_axis(x, 0, 0, 49) * along_axis(x, 0, 1, 49)
    (exact,) = detect([y], x)
    (given_up,) = detect([y], x, budget=60)
    assert exact.nnz == 98
    assert given_up.dense
    assert given_up.notes == ("multiply: more than 60 entries, treated as dense",)
    (late,) = detect([along_axis(y, 0, 0, 1)], x, budget=60)
    assert late.shape == (1, 50)
    assert late.dense


def test_too_large_dense_patterns_are_not_listed():
    pattern = pattern_of(lambda x: x - gt.sum(x), 100_000)
    assert pattern.dense
    assert pattern.nnz == 10**10
    assert repr(pattern).endswith("all 10000000000 entries")
    with pytest.raises(SparsityError, match="too large to be listed"):
        _ = pattern.indices


def test_large_stencil():
    n = 200_000
    pattern = pattern_of(lambda x: x[2:] - 2 * x[1:-1] + x[:-2], n)
    assert pattern.nnz == 3 * (n - 2)
    assert (pattern.indices.reshape(-1, 3) == np.arange(n - 2)[:, None] + np.arange(3)).all()


def test_shared_sums_are_one_set():
    # Every element depends on every other through a sum, and only what is read of it counts.
    pattern = pattern_of(lambda x: (x * gt.sum(x))[:2], 1_000)
    assert pattern.shape == (2, 1_000)
    assert pattern.dense


def test_hessian_of_products_of_neighbours_is_tridiagonal():
    pattern = gt.hessian_pattern(lambda x: gt.sum(x[1:] * x[:-1]), np.zeros(5))
    assert (pattern.toarray() == band(5, 1, -1)).all()
    pattern = gt.hessian_pattern(lambda x: gt.sum(gt.exp(x[1:] - x[:-1])), np.zeros(5))
    assert (pattern.toarray() == band(5, 0, 1, -1)).all()


def test_hessian_of_an_arrow():
    pattern = gt.hessian_pattern(lambda x: gt.sum(x**3) + x[0] * gt.sum(gt.sin(x)), np.zeros(5))
    expected = np.eye(5, dtype=bool)
    expected[0] = expected[:, 0] = True
    assert (pattern.toarray() == expected).all()


@pytest.mark.parametrize(
    ("f", "count"),
    [
        (lambda x: gt.sum(x) * 3.0, 0),
        (lambda x: gt.max(x) + gt.sum(gt.abs(x)) + gt.sum(gt.relu(x)), 0),
        (lambda x: gt.sum(x[:2] * x[2:]), 4),
        (lambda x: gt.sum(x) ** 2, 16),
        (lambda x: gt.logsumexp(x), 16),
        (lambda x: gt.sum(x * gt.asarray([1.0, 2.0, 3.0, 4.0])), 0),
    ],
)
def test_hessians_of_linear_and_mixing_functions(f, count):
    assert gt.hessian_pattern(f, np.zeros(4)).nnz == count


def test_hessian_through_indexing_and_custom_code():
    @gt.custom_gradient
    def cube(x):
        return x**3, lambda dy: dy * 3.0 * x**2

    pairs = np.array([[0, 2], [1, 3]])
    found = gt.hessian_pattern(lambda x: gt.sum(cube(gt.sum(x[pairs], axis=1))), np.zeros(4))
    expected = np.zeros((4, 4), bool)
    for pair in pairs:
        expected[np.ix_(pair, pair)] = True
    assert not (expected & ~found.toarray()).any()
    assert (found.toarray() == found.toarray().T).all()


STEPS = {
    "sin": lambda x: gt.sin(x),
    "square": lambda x: x * x,
    "shift": lambda x: gt.roll(x, 1),
    "neighbour": lambda x: x * gt.roll(x, -1),
    "sum": lambda x: x + gt.sum(x[:2]),
    "running": lambda x: gt.cumulative_sum(x),
    "flip": lambda x: gt.flip(x),
    "grid": lambda x: gt.reshape(gt.permute_dims(gt.reshape(x, (2, 3)), (1, 0)), (6,)),
    "rows": lambda x: gt.reshape(
        gt.reshape(x, (2, 3)) * gt.sum(gt.reshape(x, (2, 3)), axis=1, keepdims=True), (6,)
    ),
    "gather": lambda x: x[np.array([0, 2, 2, 5, 1, 0])],
    "scatter": lambda x: gt.scatter_add(gt.zeros(6), [1, 1, 4, 0, 5, 5], x * x),
    "matmul": lambda x: gt.reshape(gt.matmul(gt.reshape(x, (3, 2)), gt.ones((2, 2))), (6,)),
    "step": lambda x: gt.where(x > 0.1, x * x, gt.floor(x)),
    "join": lambda x: gt.concat([x[4:], gt.cos(x[:4])]),
}


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5), st.integers(0, 10**6))
def test_patterns_contain_derivatives_of_random_programs(names, seed):
    def f(x):
        for name in names:
            x = STEPS[name](x)
        return x

    def loss(x):
        return gt.sum(f(x) * gt.asarray(np.arange(1.0, 7.0)))

    x = np.random.default_rng(seed).uniform(0.2, 0.9, 6)
    jacobian = np.stack([gt.jvp(f, (x,), (e,))[1].numpy() for e in np.eye(6)], axis=1)
    pattern = gt.sparsity_pattern(f, x).toarray()
    assert not ((jacobian != 0) & ~pattern).any()
    slope = gt.grad(loss)
    hessian = np.stack([gt.jvp(slope, (x,), (e,))[1].numpy() for e in np.eye(6)], axis=1)
    size = np.abs(hessian).max()
    assert not ((np.abs(hessian) > 1e-9 * size) & ~gt.hessian_pattern(loss, x).toarray()).any()
