"""Reductions in compiled kernels, against NumPy: axes apart, positions, compositions."""

import itertools

import numpy as np
import pytest

import gradtape as gt
from gradtape.ir.op import REGISTRY
from gradtape.trace.record import record

DTYPES = ("float64", "float32", "int32", "uint8", "int64")
KINDS = ("sum", "prod", "max", "min", "any", "all")


def assert_close(want, got, factor=64):
    assert want.dtype == got.dtype
    assert want.shape == got.shape
    if want.dtype.kind in "fc":
        eps = np.finfo(want.dtype).eps
        np.testing.assert_allclose(got, want, rtol=factor * eps, atol=factor * eps)
    else:
        np.testing.assert_array_equal(got, want)


def values(rng, shape, dtype):
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 5, shape).astype(dtype)
    return np.asarray(rng.uniform(-1.5, 1.5, shape), dtype)


def subsets(count):
    for size in range(1, count + 1):
        yield from itertools.combinations(range(count), size)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 4), (40, 3, 17), (2, 3, 1, 5), (3, 2, 4, 2)])
def test_any_axes(shape, both_ways, library_calls):
    rng = np.random.default_rng(1)
    x = gt.asarray(values(rng, shape, "float64"))
    outputs = [
        getattr(gt, kind)(x, axis=axes, keepdims=keep)
        for kind in KINDS
        for axes in subsets(len(shape))
        for keep in (False, True)
    ]
    assert library_calls(*outputs) == []
    for want, got in both_ways(*outputs):
        assert_close(want, got)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("shape", [(3, 5), (17, 9), (5, 200), (2, 3, 4), (9, 2, 21)])
def test_axes_that_operands_walk_differently(shape, kind, both_ways, library_calls):
    """Broadcast and permuted operands keep axes from being one."""
    rng = np.random.default_rng(2)
    x = gt.asarray(values(rng, shape, "float64"))
    row = gt.asarray(values(rng, shape[-1:], "float64"))
    column = gt.asarray(values(rng, (*shape[:-1], 1), "float64"))
    turned = gt.permute_dims(
        gt.asarray(values(rng, shape[::-1], "float64")), tuple(range(len(shape)))[::-1]
    )
    for body in (row * column, x + row, turned * 0.5, turned + x * column, column - row + turned):
        outputs = [getattr(gt, kind)(body, axis=axes) for axes in subsets(len(shape))]
        assert library_calls(*outputs) == []
        for want, got in both_ways(*outputs):
            assert_close(want, got)


def test_a_large_outer_difference_is_summed_in_chunks(both_ways, library_calls):
    rng = np.random.default_rng(3)
    a = gt.asarray(values(rng, (1201, 1), "float64"))
    b = gt.asarray(values(rng, (1, 703), "float64"))
    outputs = [gt.sum((a - b) ** 2), gt.max(a - b), gt.sum((a - b) ** 2, axis=(0, 1))]
    outputs += [gt.sum(gt.permute_dims(a - b, (1, 0)) * 1.0)]
    assert library_calls(*outputs) == []
    for want, got in both_ways(*outputs):
        assert_close(want, got, 1000)


def test_results_do_not_depend_on_threads():
    rng = np.random.default_rng(4)
    a = gt.asarray(values(rng, (1500, 1), "float64"))
    b = gt.asarray(values(rng, (1, 900), "float64"))
    found = []
    before = gt.get_num_threads()
    try:
        for count in (1, 2, 1, 2):
            gt.set_num_threads(count)
            for _ in range(3):
                last = float(gt.sum(gt.sin(a) * b))
            found.append(last)
    finally:
        gt.set_num_threads(before)
    assert len(set(found)) == 1


def test_partial_results_of_partial_results():
    """More chunks than one kernel combines; too large to run here."""
    from gradtape.compiler.lower.fused_loops import _combination
    from gradtape.compiler.lower.kernel import CHUNK
    from gradtape.ir.node import apply, leaf
    from gradtape.ir.op import REGISTRY
    from gradtape.ir.spec import spec

    node = apply(REGISTRY["sum"], (leaf(0, spec((4,), np.dtype(float))),), ((0,), False))
    first, last = _combination("partial", node, 3 * 8 * CHUNK, 512)
    assert (first.total, last.total) == (3, 1)
    assert last.sizes == (3,)
    assert first.entries[1][0] == last.entries[0][0]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(1,), (7,), (16,), (100_003,), (3, 5), (70, 33), (33, 70), (4, 3, 9), (2, 1, 5)]
)
def test_positions(shape, dtype, both_ways, library_calls):
    rng = np.random.default_rng(5)
    x = gt.asarray(values(rng, shape, dtype))  # integers repeat, so ties are met
    outputs = [
        find(x, axis=axis, keepdims=keep)
        for find in (gt.argmax, gt.argmin)
        for axis in (None, *range(len(shape)))
        for keep in (False, True)
    ]
    assert library_calls(*outputs) == []
    for want, got in both_ways(*outputs):
        assert_close(want, got)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_positions_of_special_values(dtype, both_ways):
    rng = np.random.default_rng(6)
    pool = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0], dtype)
    rows = [rng.choice(pool[k % 3 :], 21) for k in range(60)]
    rows += [np.full(21, number) for number in pool]
    x = gt.asarray(np.array(rows, dtype))
    outputs = [find(x, axis=axis) for find in (gt.argmax, gt.argmin) for axis in (None, 0, 1)]
    outputs += [gt.argmax(x[::-1], axis=0), gt.argmin(x.T, axis=0), gt.argmax(x.T)]
    for want, got in both_ways(*outputs):
        np.testing.assert_array_equal(got, want)


def test_positions_over_axes_that_are_not_one(both_ways, library_calls):
    rng = np.random.default_rng(7)
    a, b = gt.asarray(rng.normal(size=(13, 1))), gt.asarray(rng.normal(size=(1, 29)))
    x = gt.asarray(rng.normal(size=(5, 6, 7)))
    outputs = [gt.argmax(a * b), gt.argmin(a + b), gt.argmax(gt.permute_dims(x, (2, 0, 1)))]
    assert library_calls(*outputs) == []
    for want, got in both_ways(*outputs):
        np.testing.assert_array_equal(got, want)


def test_extremes_of_integers(both_ways):
    for dtype in ("int8", "uint8", "int64", "uint64"):
        bounds = np.iinfo(dtype)
        x = gt.asarray(np.array([[bounds.min] * 9, [bounds.max] * 9, range(9)], dtype))
        outputs = [find(x, axis=1) for find in (gt.argmax, gt.argmin, gt.max, gt.min)]
        for want, got in both_ways(*outputs):
            np.testing.assert_array_equal(got, want)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1), (0, 2)])
def test_gradients_of_extrema(axis, dtype, both_ways, library_calls):
    rng = np.random.default_rng(8)
    x = gt.asarray(rng.integers(0, 4, (5, 9, 3)).astype(dtype))
    outputs = [
        gt.grad(lambda x, f=f: gt.sum(f(gt.sin(x), axis=axis) * 2.0))(x) for f in (gt.max, gt.min)
    ]
    assert library_calls(*outputs) == []
    for want, got in both_ways(*outputs):
        assert_close(want, got)


def test_masks_of_special_values(both_ways):
    x = gt.asarray(np.array([[1.0, np.nan, 3.0, np.nan], [-np.inf] * 4, [0.0, -0.0, -1.0, -2.0]]))
    outputs = [
        record(REGISTRY[name], (x,), (axes,))
        for name in ("max_mask", "min_mask")
        for axes in ((0,), (1,), (0, 1), ())
    ]
    for want, got in both_ways(*outputs):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2)])
def test_logsumexp(axis, dtype, both_ways, library_calls):
    rng = np.random.default_rng(9)
    x = gt.asarray(np.asarray(rng.normal(size=(6, 5, 17)) * 30, dtype))
    value = gt.logsumexp(x, axis=axis)
    outputs = [value, gt.grad(lambda x: gt.sum(gt.logsumexp(x, axis=axis)))(x)]
    assert library_calls(*outputs) == []
    for want, got in both_ways(*outputs):
        assert_close(want, got)


def test_logsumexp_of_special_values(both_ways):
    x = gt.asarray(
        np.array([
            [1.0, -np.inf, 2.0], [-np.inf] * 3, [np.inf, 1.0, 2.0], [np.inf, np.inf, -np.inf],
            [np.nan, 1.0, np.inf], [1e308, 1e308, -1e308],
        ])
    )  # fmt: skip
    outputs = [gt.logsumexp(x, axis=1), gt.grad(lambda x: gt.sum(gt.logsumexp(x, axis=1)))(x)]
    for want, got in both_ways(*outputs):
        np.testing.assert_allclose(got, want, rtol=1e-13)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64"])
@pytest.mark.parametrize("axis", [None, 0, (0, 1)])
def test_norms(axis, dtype, both_ways, library_calls):
    rng = np.random.default_rng(10)
    x = rng.normal(size=(7, 19))
    x = gt.asarray((x + (1j * rng.normal(size=x.shape) if dtype[0] == "c" else 0)).astype(dtype))
    outputs = [gt.norm(x, axis=axis), gt.norm(x, axis=axis, keepdims=True)]
    outputs += [gt.grad(lambda x: gt.sum(gt.norm(x, axis=axis)))(x), gt.std(gt.real(x), axis=axis)]
    assert library_calls(*outputs) == []
    for want, got in both_ways(*outputs):
        assert_close(want, got)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_norms_out_of_range(dtype, both_ways):
    limits = np.finfo(dtype)
    big, tiny = float(limits.max) / 4, float(limits.smallest_subnormal)
    rows = [
        [big, big, 0, 0], [big, 1, 1, 1], [tiny, tiny * 3, 0, tiny], [0, 0, 0, 0],
        [np.inf, 1, -np.inf, 0], [np.nan, 1, 2, 3], [np.nan, np.inf, 0, big], [tiny, 0, 0, 1],
        [float(limits.tiny), float(limits.tiny) * 2, 0, 0], [big, big, big, big],
    ]  # fmt: skip
    x = gt.asarray(np.array(rows, dtype))
    for want, got in both_ways(gt.norm(x, axis=1), gt.norm(x[2:4])):
        np.testing.assert_allclose(got, want, rtol=4 * limits.eps, atol=tiny)


def test_empty_and_scalar_operands(both_ways):
    outputs = [
        gt.sum(gt.asarray(np.zeros((0, 3))), axis=0), gt.logsumexp(gt.asarray(np.zeros((0, 3)))),
        gt.norm(gt.asarray(np.zeros((0, 3))), axis=1), gt.argmax(gt.asarray(np.array(3.0))),
        gt.argmax(gt.asarray(np.zeros((0, 3))), axis=1), gt.logsumexp(gt.asarray(2.0)),
        gt.norm(gt.asarray(-2.0)), gt.argmin(gt.asarray(np.ones((1, 1)))),
    ]  # fmt: skip
    for want, got in both_ways(*outputs):
        assert_close(want, got)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "complex128", "bool"])
@pytest.mark.parametrize("shape", [(17, 2100), (300, 1031), (70_000, 9), (16, 40), (2, 40, 1100)])
def test_columns_in_strips(dtype, shape, both_ways):
    """Many rows are read a strip of columns at a time; the last columns and few rows are not."""
    a = gt.asarray(values(np.random.default_rng(5), shape, dtype))
    outputs = [gt.sum(a, axis=-2)]
    if dtype != "complex128":
        outputs += [gt.max(a, axis=-2), gt.argmax(a, axis=-2), gt.argmin(a * 1, axis=-2)]
    for want, got in both_ways(*outputs):
        assert_close(want, got, 100)


def test_positions_in_strips_are_the_first_ones(both_ways):
    a = np.zeros((600, 2500))
    a[300:, 7] = 1.0
    a[20, 1100], a[500, 1100] = np.nan, np.nan
    for want, got in both_ways(gt.argmax(gt.asarray(a), axis=0)):
        assert want[7] == got[7] == 300
        assert want[1100] == got[1100] == 20
        assert got.sum() == 320


def test_long_columns_are_added_in_levels(both_ways):
    """A running sum of so many float32 numbers would be wrong in the fourth digit."""
    a = gt.asarray(np.full((200_000, 64), 0.1, np.float32))
    for _, got in both_ways(gt.sum(a, axis=0)):
        np.testing.assert_allclose(got, 200_000 * np.float64(np.float32(0.1)), rtol=5e-6)


@pytest.mark.parametrize("length", [1, 2, 3, 8, 9])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
def test_many_short_rows(length, dtype, both_ways):
    a = gt.asarray(values(np.random.default_rng(6), (3, 131, length), dtype))
    b = gt.asarray(values(np.random.default_rng(7), (131, length), dtype))
    outputs = [gt.sum(a, axis=-1), gt.max(a, axis=-1), gt.argmax(a, axis=2), gt.any(a, axis=-1)]
    outputs += [gt.sum(a * b, axis=-1), gt.sum(gt.permute_dims(a, (1, 2, 0)), axis=1)]
    for want, got in both_ways(*outputs):
        assert_close(want, got, 100)
