"""Both modes on random small graphs: against each other, finite differences and plain NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import gradtape as gt
from gradtape.autodiff.modes import forward, reverse
from gradtape.ir.node import apply, placeholder
from gradtape.ir.op import REGISTRY
from gradtape.ir.program import program
from gradtape.ir.spec import spec
from gradtape.ir.verify import verify
from gradtape.runtime import tiers
from gradtape.runtime.numpy_plan import NumpyPlan
from gradtape.testing import check_gradients
from gradtape.trace.record import record

# Bounded and smooth, so that deep compositions stay where finite differences mean something.
UNARY = ("sin", "tanh", "sigmoid", "negative", "identity", "atan")
BINARY = ("add", "subtract", "multiply", "logaddexp")

# One op of the graph: what kind, which op, which earlier nodes.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["unary", "binary", "sum", "reshape", "broadcast_to", "where"]),
        st.integers(0, 11),
        st.integers(0, 99),
        st.integers(0, 99),
    ),
    min_size=1,
    max_size=8,
)


def broadcasts(left, right):
    try:
        return np.broadcast_shapes(left, right)
    except ValueError:
        return None


def build(steps, sources, call):
    """Apply the steps to whatever `call(name, operands, params)` takes; where a shape does not
    fit a step, another op takes its place."""
    values = list(sources)
    for kind, choice, first, second in steps:
        x, y = values[first % len(values)], values[second % len(values)]
        axis = choice % len(x.shape) if x.shape else 0
        if kind == "sum" and x.shape:
            found = call("sum", (x,), ((axis,), bool(choice % 2)))
        elif kind == "reshape":
            size = int(np.prod(x.shape))
            found = call("reshape", (x,), ((1, size) if choice % 2 else (size,),))
        elif kind == "broadcast_to" and len(x.shape) < 3:
            found = call("broadcast_to", (x,), ((2, *x.shape),))
        elif kind == "binary" and broadcasts(x.shape, y.shape) is not None:
            found = call(BINARY[choice % len(BINARY)], (x, y), ())
        elif kind == "where" and broadcasts(x.shape, y.shape) is not None:
            # The condition is away from its edge: it compares constants, not the sources.
            count = np.arange(int(np.prod(x.shape))).reshape(x.shape)
            pattern = np.asarray(count % 2 == choice % 2)
            found = call("where", (pattern, x, y), ())
        else:
            found = call(UNARY[choice % len(UNARY)], (x,), ())
        values.append(found)
    return values[-1]


def on_numpy(name, operands, params):
    op = REGISTRY[name]
    return np.asarray(op.numpy(*operands, **op.keywords(params)))


def on_tensors(name, operands, params):
    return record(REGISTRY[name], operands, params)


def arrays(seed):
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1.0, 1.0, (2, 3)), rng.uniform(-1.0, 1.0, (3,))]


def node_graph(steps):
    """The same graph on nodes, with the arrays that its patterns stand for."""
    sources = [placeholder(spec(array.shape, array.dtype)) for array in arrays(0)]
    bound = {}

    def call(name, operands, params):
        nodes = []
        for operand in operands:
            if isinstance(operand, np.ndarray):
                node = placeholder(spec(operand.shape, operand.dtype))
                bound[node] = operand
                operand = node
            nodes.append(operand)
        return apply(REGISTRY[name], tuple(nodes), params)

    return sources, build(steps, sources, call), bound


def run(outputs, bound):
    found = verify(program(outputs))
    return NumpyPlan(found).run([bound[node] for node in found.inputs])


@pytest.fixture(autouse=True)
def reference_tier(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "off")


@settings(deadline=None, derandomize=True, max_examples=80)
@given(steps=STEPS, seed=st.integers(0, 1000))
def test_recorded_equals_numpy(steps, seed):
    values = arrays(seed)
    got = build(steps, [gt.asarray(value) for value in values], on_tensors)
    expected = build(steps, values, on_numpy)
    assert got.shape == expected.shape
    assert got.numpy().tobytes() == expected.tobytes()


@settings(deadline=None, derandomize=True, max_examples=80)
@given(steps=STEPS, seed=st.integers(0, 1000))
def test_forward_is_the_transpose_of_reverse(steps, seed):
    sources, target, bound = node_graph(steps)
    rng = np.random.default_rng(seed)
    tangents = [placeholder(node.spec) for node in sources]
    cotangent = placeholder(target.spec)
    (pushed,) = forward([target], sources, tangents)
    pulled = reverse([target], [cotangent], sources)
    assert (pushed is None) == all(one is None for one in pulled)
    if pushed is None:
        return
    bound.update(zip(sources, arrays(seed), strict=True))
    for node in (*tangents, cotangent):
        bound[node] = rng.normal(size=node.shape)
    kept = [one is not None for one in pulled]
    forwards, *backwards = run([pushed, *[one for one in pulled if one is not None]], bound)
    left = np.sum(bound[cotangent] * forwards)
    directions = [bound[t] for t, used in zip(tangents, kept, strict=True) if used]
    right = sum(np.sum(v * g) for v, g in zip(directions, backwards, strict=True))
    assert np.isclose(left, right, rtol=1e-10, atol=1e-10)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(steps=STEPS, seed=st.integers(0, 1000))
def test_derivatives_agree_with_finite_differences(steps, seed):
    check_gradients(lambda *xs: build(steps, xs, on_tensors), *arrays(seed), order=2)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(steps=STEPS, seed=st.integers(0, 1000))
def test_a_blocked_node_is_a_constant(steps, seed):
    sources, target, bound = node_graph(steps)
    del seed, bound
    assert reverse([target], [placeholder(target.spec)], sources[:1], blocked={target}) == [None]
    tangent = placeholder(sources[0].spec)
    assert forward([target], sources[:1], [tangent], blocked={target}) == [None]


AXES = st.tuples(st.sampled_from([0, 1, 2, -1, None]), st.sampled_from([0, 1, -1, None]))


@settings(deadline=None, derandomize=True, max_examples=60)
@given(steps=STEPS, seed=st.integers(0, 1000), axes=AXES)
def test_vmap_equals_a_loop(steps, seed, axes):
    if axes == (None, None):
        return
    rng = np.random.default_rng(seed)
    examples = [
        [array if axis is None else array + rng.uniform(-0.5, 0.5, array.shape) for _ in range(3)]
        for array, axis in zip(arrays(seed), axes, strict=True)
    ]
    given = [
        column[0] if axis is None else np.stack(column, axis)
        for column, axis in zip(examples, axes, strict=True)
    ]

    def value(*xs):
        return build(steps, xs, on_tensors)

    def slope(*xs):
        return gt.grad(lambda *xs: gt.sum(gt.sin(value(*xs))), argnums=(0, 1))(*xs)

    def tangent(*xs):
        return gt.jvp(value, xs, [gt.cos(x) for x in xs])[1]

    for f in (value, slope, tangent):
        got = gt.pytree.flatten(gt.vmap(f, in_axes=axes)(*map(gt.asarray, given)))[0]
        rows = [
            gt.pytree.flatten(f(*map(gt.asarray, row)))[0] for row in zip(*examples, strict=True)
        ]
        for one, *column in zip(got, *rows, strict=True):
            expected = np.stack([each.numpy() for each in column])
            np.testing.assert_allclose(one.numpy(), expected, rtol=1e-9, atol=1e-11)
