"""Movements that are made of copies, in compiled kernels, against NumPy."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.lower.fused_loops import fusible
from gradtape.compiler.passes import optimize
from gradtape.compiler.passes.fuse import fuse
from gradtape.compiler.passes.units import Call
from gradtape.ir.node import apply, leaf
from gradtape.ir.op import REGISTRY
from gradtape.ir.program import program
from gradtape.ir.spec import spec
from gradtape.runtime.compiled_plan import CompiledPlan
from gradtape.runtime.numpy_plan import NumpyPlan
from gradtape.trace.record import record
from gradtape.trace.value import Value

DTYPES = ("float64", "float32", "int32", "uint8", "complex128", "complex64", "bool")


@pytest.mark.slow
@pytest.mark.parametrize(
    "op", [op for op in REGISTRY.values() if op.copies is not None], ids=lambda op: op.name
)
def test_samples(op):
    native = 0
    for sample in op.samples():
        arrays = [np.asarray(array) for array in sample.inputs]
        leaves = [leaf(number, spec(a.shape, a.dtype)) for number, a in enumerate(arrays)]
        node = apply(op, tuple(leaves), tuple(sample.params[key] for key in op.params))
        found = optimize(program([node]))
        values = [Value(np.array(arrays[n.params[0]]), n.spec) for n in found.inputs]
        (expected,) = NumpyPlan(found).run(values)
        plan = CompiledPlan(found)
        for _ in range(2):
            (content,) = plan.run(values)
            got = Value(content, node.spec).array
            assert got.dtype == expected.dtype
            np.testing.assert_array_equal(got, expected)
        units = fuse(found, fusible).units
        native += not any(isinstance(unit, Call) for unit in units)
    assert native


def values(rng, shape, dtype):
    found = rng.uniform(-3, 3, shape)
    if np.dtype(dtype).kind == "c":
        found = found + 1j * rng.uniform(-3, 3, shape)
    return np.abs(found).astype(dtype) if dtype == "uint8" else np.asarray(found).astype(dtype)


def check(both_ways, library_calls, *outputs):
    assert library_calls(*outputs) == []
    for want, got in both_ways(*outputs):
        assert want.dtype == got.dtype
        if want.dtype.kind in "fc":
            np.testing.assert_allclose(got, want, rtol=1e-5 if want.itemsize < 8 else 1e-12)
        else:
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_parts_joined_and_moved(dtype, both_ways, library_calls):
    rng = np.random.default_rng(1)
    x = gt.asarray(values(rng, (5, 17), dtype))
    y = gt.asarray(values(rng, (5, 3), dtype))
    z = gt.asarray(values(rng, (2, 17), dtype))
    outputs = [
        gt.concat([x, y], axis=1), gt.concat([x, z, x]), gt.stack([x, x[::-1]], axis=1),
        gt.stack([x[0], z[1]], axis=1), gt.concat([x.T, y.T, z[:, :5]]), gt.roll(x, 3, axis=1),
        gt.roll(x, (-1, 20), axis=(0, 1)), gt.roll(x.T, 2),
        gt.concat([x, gt.zeros((1, 17), dtype=x.dtype)]),
        gt.pad(x, ((1, 2), (0, 3))), gt.concat([gt.permute_dims(x, (1, 0))[::2], y.T]),
    ]  # fmt: skip
    check(both_ways, library_calls, *outputs)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_gradients_of_slices(dtype, both_ways, library_calls):
    rng = np.random.default_rng(2)
    x = gt.asarray(values(rng, (6, 4, 11), dtype))
    keys = [
        (slice(1, None),), (slice(None), 2), (slice(1, 5, 2), slice(None), slice(None, None, -1)),
        (3, slice(1, 3), slice(2, 9)), (slice(None), slice(None), slice(0, 1)), (5, 3, 10),
        (None, slice(2, 4)),
    ]  # fmt: skip
    for key in keys:
        y = gt.grad(lambda x, key=key: gt.sum(gt.real(x[key] * x[key])))(x)
        check(both_ways, library_calls, y, x[key] * 2)


def test_writes_to_parts(both_ways, library_calls):
    rng = np.random.default_rng(3)
    for value in (2.5, gt.asarray(rng.normal(size=4)), gt.asarray(rng.normal(size=(2, 4)))):
        x = gt.identity(gt.asarray(rng.normal(size=(5, 4))))
        x[1:3] = value
        x[:, 0] = 7.0
        check(both_ways, library_calls, x, gt.sin(x))


def test_starts_that_are_operands(both_ways, library_calls):
    rng = np.random.default_rng(4)
    x = gt.asarray(rng.normal(size=(40, 5)))
    start, column = gt.asarray(np.array(7)), gt.asarray(np.array(3))
    params = ((None, None), (6, 2), (2, 1), (6, 2))
    part = record(REGISTRY["slice"], (x, start, column), params)
    back = record(REGISTRY["unslice"], (part * 2.0, start, column), (*params[:3], (40, 5)))
    put = record(REGISTRY["set_slice"], (x, part + 1.0, start, column), params)
    check(both_ways, library_calls, part, back, put)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex64", "int32"])
@pytest.mark.parametrize(
    ("shape", "count", "axis"),
    [((9,), (20,), 0), ((9, 4), (30,), 0), ((9, 37), (5, 3), 0), ((3, 9), (8,), 1),
     ((3, 9, 20), (2, 6), 1), ((2, 3, 9), (7,), 2), ((9, 33), (), 0), ((6, 1000), (40,), 0)],
)  # fmt: skip
def test_gather_and_scatter(shape, count, axis, dtype, both_ways, library_calls):
    rng = np.random.default_rng(5)
    x = gt.asarray(values(rng, shape, dtype))
    indices = gt.asarray(rng.integers(0, shape[axis], count))
    y = gt.take(x, indices, axis=axis) if count else gt.gather(x, indices, axis=axis)
    given = gt.asarray(values(rng, y.shape, dtype))
    outputs = [
        y, y * 2, record(REGISTRY["scatter_add"], (x, indices, given), (axis,)),
        record(REGISTRY["scatter_set"], (x, indices, given), (axis,)),
        record(REGISTRY["scatter_add"], (gt.zeros(shape, dtype=x.dtype), indices, given), (axis,)),
    ]  # fmt: skip
    check(both_ways, library_calls, *outputs)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize(("shape", "axis"), [((5, 9), 1), ((5, 9), 0), ((3, 4, 17), 1), ((8,), 0)])
def test_along_an_axis(shape, axis, dtype, both_ways, library_calls):
    rng = np.random.default_rng(6)
    x = gt.asarray(values(rng, shape, dtype))
    chosen = (*shape[:axis], 6, *shape[axis + 1 :])
    indices = gt.asarray(rng.integers(0, shape[axis], chosen))
    y = gt.take_along_axis(x, indices, axis=axis)
    given = gt.asarray(values(rng, chosen, dtype))
    added = record(REGISTRY["add_along_axis"], (x, indices, given), (axis,))
    check(both_ways, library_calls, y, y + 1, added)


def test_gathers_from_views_and_computed_values(both_ways, library_calls):
    rng = np.random.default_rng(7)
    x = gt.asarray(rng.normal(size=(12, 10)))
    indices = gt.asarray(rng.integers(0, 10, 25))
    outputs = [
        gt.take(gt.sin(x.T), indices, axis=0), gt.take(x.T[:, ::-1], indices, axis=0),
        gt.sum(gt.take(x[::2], indices, axis=1) ** 2, axis=1),
        gt.take(gt.broadcast_to(x[0], (3, 10)), indices[::-1], axis=1),
    ]  # fmt: skip
    check(both_ways, library_calls, *outputs)


def test_gradient_of_an_embedding(both_ways, library_calls):
    rng = np.random.default_rng(8)
    table = gt.asarray(rng.normal(size=(50, 16)))
    words = rng.integers(0, 50, (8, 12))
    y = gt.grad(lambda t: gt.sum(gt.tanh(gt.take(t, words, axis=0))))(table)
    check(both_ways, library_calls, y)


def test_a_large_scatter_is_the_same_for_any_number_of_threads():
    rng = np.random.default_rng(9)
    x = gt.asarray(rng.normal(size=(300, 2048)))
    indices = gt.asarray(rng.integers(0, 300, 1500))
    given = gt.asarray(rng.normal(size=(1500, 2048)))
    before, found = gt.get_num_threads(), []
    try:
        for count in (1, 2, 2):
            gt.set_num_threads(count)
            for _ in range(3):
                last = gt.scatter_add(x, indices, given * 0.5).numpy()
            found.append(last)
    finally:
        gt.set_num_threads(before)
    assert all(np.array_equal(found[0], other) for other in found[1:])
    expected = np.array(x.numpy())
    np.add.at(expected, indices.numpy(), given.numpy() * 0.5)
    np.testing.assert_allclose(found[0], expected, rtol=1e-12, atol=1e-12)


def test_a_result_of_copies_can_be_an_output_and_an_operand(both_ways, library_calls):
    x = gt.asarray(np.arange(6.0))
    joined = gt.concat([x, x * 2.0])
    check(both_ways, library_calls, joined, gt.sum(joined), joined[3:9] * joined[:6])
