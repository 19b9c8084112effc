"""Every op in native code: alone in a compiled plan, and in the body of a scan."""

import numpy as np
import pytest
from tests.ops.cases import CASES, at_samples

import gradtape as gt
from gradtape.compiler.lower.lowered_program import LoweredProgram
from gradtape.compiler.passes import optimize
from gradtape.ir import PICK
from gradtape.ir.node import apply, leaf, outputs, placeholder
from gradtape.ir.program import closed, program
from gradtape.ir.spec import spec
from gradtape.ops.control.scan import scan_node
from gradtape.runtime import tiers
from gradtape.runtime.compiled_plan import CompiledPlan, body_of
from gradtape.runtime.numpy_plan import NumpyPlan
from gradtape.trace.value import Value

# Ops whose compiled plans call Python, each with its reason.
CALLS_PYTHON = {
    "numpy_function": "it calls a function of the user",
    "pure_callback": "it calls a function of the user",
    "py_function": "it calls a function of the user",
    "dawsn": "a function of tf.math.special, which gt.extend declares with a NumPy kernel",
    "exponential_integral": "a function of tf.math.special",
    "fresnel_cos": "a function of tf.math.special",
    "fresnel_sin": "a function of tf.math.special",
    "spence": "a function of tf.math.special",
    "solve_equation": "it runs an iterative solver that is a Python object",
    "solve_system": "it runs a linear solver that is a Python object",
}


def is_real(case):
    return all(array.dtype.kind in "biuf" for array in case.inputs) and all(
        of.dtype.kind in "biuf" for of in case.results
    )


def program_of(case):
    leaves = [leaf(n, spec(array.shape, array.dtype)) for n, array in enumerate(case.inputs)]
    node = apply(case.op, tuple(leaves), case.params)
    several = type(node.spec) is tuple
    found = [apply(PICK, (node,), (n,)) for n in range(len(node.spec))] if several else [node]
    return optimize(program(found))


def python_ops(case):
    """The names of the ops that a compiled plan of the case calls in Python."""
    lowered = LoweredProgram(program_of(case), body_of)
    return lowered.python_ops


def test_which_ops_call_python():
    found = {}
    for case in CASES:
        if is_real(case):
            for name in python_ops(case):
                found.setdefault(name, []).append(str(case))
    # Shown if the test fails.
    for name, cases in sorted(found.items()):
        print(name, CALLS_PYTHON.get(name, ""), cases[:3])
    assert found.keys() <= CALLS_PYTHON.keys()
    assert len(CALLS_PYTHON) <= 12


def close(got, expected):
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    if expected.dtype.kind == "f":
        eps = np.finfo(expected.dtype).eps
        np.testing.assert_allclose(got, expected, rtol=256 * eps, atol=256 * eps)
    else:
        np.testing.assert_array_equal(got, expected)


def values_of(found, case):
    return [Value(np.array(case.inputs[node.params[0]]), node.spec) for node in found.inputs]


@at_samples(is_real)
def test_alone(cases):
    for case in cases:
        found = program_of(case)
        values = values_of(found, case)
        expected = NumpyPlan(found).run(values)
        got = CompiledPlan(found).run(values)
        for content, want, node in zip(got, expected, found.outputs, strict=True):
            close(Value(content, node.spec).array, np.asarray(want))


def scan_program(case):
    """A scan of two steps whose body applies the op to elements of sequences."""
    leaves = [leaf(n, spec((2, *array.shape), array.dtype)) for n, array in enumerate(case.inputs)]
    inside = tuple(placeholder(spec(array.shape, array.dtype)) for array in case.inputs)
    node = apply(case.op, inside, case.params)
    several = type(node.spec) is tuple
    results = [apply(PICK, (node,), (n,)) for n in range(len(node.spec))] if several else [node]
    body = closed(inside, tuple(results))
    made = scan_node(body, (), (), leaves, 2)
    return optimize(program(outputs(made)))


@at_samples(lambda case: is_real(case) and not case.op.runs_bodies)
def test_in_the_body_of_a_scan(cases):
    for case in cases:
        found = scan_program(case)
        twice = [np.stack([case.inputs[node.params[0]]] * 2) for node in found.inputs]
        values = [Value(array, node.spec) for array, node in zip(twice, found.inputs, strict=True)]
        expected = NumpyPlan(found).run(values)
        got = CompiledPlan(found).run(values)
        for content, want, node in zip(got, expected, found.outputs, strict=True):
            close(Value(content, node.spec).array, np.asarray(want))


def gradients_in_a_scan(case, mode):
    before, tiers.MODE = tiers.MODE, mode
    gt.clear_plans()

    def total(*given):
        def step(carry, _):
            results = case.call(*given)
            several = results if isinstance(results, tuple) else (results,)
            parts = [gt.sum(one * gt.cos(one)) for one in several if one.dtype.kind == "f"]
            return carry + sum(parts, gt.asarray(0.0)), None

        return gt.scan(step, gt.asarray(0.0), None, length=2)[0]

    try:
        sources = case.sources()
        found = gt.grad(total, argnums=tuple(range(len(sources))))(*sources)
        return [np.array(one.numpy()) for one in found]
    finally:
        tiers.MODE = before
        gt.clear_plans()


@at_samples(
    lambda case: (
        is_real(case)
        and case.differentiable
        and case.sample.order > 0
        and case.op.self_contained
        and all(array.size for array in case.inputs)
    ),
    most=3,
)
def test_derivatives_in_the_body_of_a_scan(cases):
    for case in cases:
        got, expected = (gradients_in_a_scan(case, mode) for mode in ("always", "off"))
        for one, other in zip(got, expected, strict=True):
            assert one.dtype == other.dtype
            eps = np.finfo(other.dtype).eps
            np.testing.assert_allclose(one, other, rtol=4096 * eps, atol=4096 * eps)


def test_a_plan_names_what_it_calls_in_python():
    x, z = gt.asarray([1.0, 2.0]), gt.asarray([1j, 2.0])
    text = gt.plan_of(gt.sum(gt.sin(gt.sort(x))))
    assert "call" in text
    assert "Python" not in text
    # Complex numbers are sorted by NumPy.
    assert "in Python: sort" in gt.plan_of(gt.sum(gt.sort(z)))
    steps = gt.scan(lambda c, row: (c + gt.sort(row * 1j), None), z, gt.stack([z, z]))[0]
    assert "in Python: sort" in gt.plan_of(steps)


@pytest.mark.parametrize("mode", ["always", "off"])
@pytest.mark.parametrize(
    "program",
    [
        lambda x, n: x[n],
        lambda x, n: gt.take(x, gt.stack([n, n])),
        lambda x, n: gt.scan(lambda c, i: (c + x[i], None), gt.asarray(0.0), gt.stack([n, n]))[0],
        lambda x, n: gt.scatter_add(x, gt.stack([n]), gt.asarray([1.0])),
    ],
)
def test_a_bad_index_is_refused_in_every_tier(program, mode, monkeypatch):
    monkeypatch.setattr(tiers, "MODE", mode)
    gt.clear_plans()
    f = gt.function(program)
    x = gt.asarray([1.0, 2.0, 3.0])
    for good in (0, 2, -3, 1):
        f(x, gt.asarray(good)).numpy()
    for bad in (3, -4):
        with pytest.raises(IndexError, match=f"index {bad} is out of range for axis 0 of length 3"):
            f(x, gt.asarray(bad)).numpy()
    # The plan serves the next call.
    np.testing.assert_array_equal(f(x, gt.asarray(1)).numpy(), program(x, gt.asarray(1)).numpy())


@pytest.mark.parametrize("mode", ["always", "off"])
def test_a_negative_exponent_is_refused_in_every_tier(mode, monkeypatch):
    monkeypatch.setattr(tiers, "MODE", mode)
    gt.clear_plans()
    with pytest.raises(ValueError, match="negative integer powers"):
        gt.pow(gt.asarray([2, 3]), gt.asarray([1, -1])).numpy()


@pytest.mark.parametrize(
    "make",
    [
        lambda: gt.arange(300_001),
        lambda: gt.arange(5, -700_000, -2, dtype=gt.float32),
        lambda: gt.arange(0.1, 40_000.0, 0.1),
        lambda: gt.linspace(-1.0, 3.0, 200_001),
        lambda: gt.linspace(0.0, 1.0, 300_000, endpoint=False, dtype=gt.float32),
        lambda: gt.eye(500, 700, k=3),
        lambda: gt.tril(gt.ones((1200, 1100)), k=-2),
        lambda: gt.triu(gt.ones((1100, 1200)), k=5),
    ],
)
def test_large_constants_are_computed_natively(make, monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "off")
    gt.clear_plans()
    expected = np.array((make() + 1).numpy())
    monkeypatch.setattr(tiers, "MODE", "always")
    gt.clear_plans()
    before = gt.counters().python_calls
    found = (make() + 1).numpy()
    assert gt.counters().python_calls == before
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "int64", "int8", "uint64", "uint16", "bool"]
)
@pytest.mark.parametrize("length", [1, 7, 8, 33, 128, 129, 1000, 5000])
def test_orders_are_those_of_numpy(dtype, length, monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")
    rng = np.random.default_rng(length)
    if dtype.startswith("float"):
        x = np.round(rng.normal(size=(3, length)) * 4.0).astype(dtype)
        x[x == 0] *= rng.choice([1.0, -1.0], size=(x == 0).sum())
        for value in (np.nan, -np.nan, np.inf, -np.inf):
            x[rng.random(x.shape) < 0.05] = value
        x[1] = rng.normal(size=length)
    else:
        bounds = (0, 2) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        x = rng.integers(
            *bounds, size=(3, length), dtype="uint64" if dtype == "uint64" else "int64"
        )
        x = x.astype(dtype)
        x[1] = x[1] % 2
    before = gt.counters().python_calls
    for axis, operand in ((1, x), (0, x.T.copy())):
        for descending in (False, True):
            # Reversed twice, so that equal elements keep their order.
            turned = np.flip(operand, axis) if descending else operand
            order = np.argsort(turned, axis, kind="stable")
            order = np.flip(length - 1 - order, axis) if descending else order
            found = gt.argsort(gt.asarray(operand), axis=axis, descending=descending)
            np.testing.assert_array_equal(found.numpy(), order)
            values = gt.sort(gt.asarray(operand), axis=axis, descending=descending)
            np.testing.assert_array_equal(values.numpy(), np.take_along_axis(operand, order, axis))
    rows = np.sort(x[0])
    for side in ("left", "right"):
        found = gt.searchsorted(gt.asarray(rows), gt.asarray(x[2]), side=side)
        np.testing.assert_array_equal(found.numpy(), np.searchsorted(rows, x[2], side))
    found = gt.isin(gt.asarray(x[2]), gt.asarray(x[0]))
    np.testing.assert_array_equal(found.numpy(), np.isin(x[2], x[0]))
    assert gt.counters().python_calls == before


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint32"])
@pytest.mark.parametrize("kind", ["distinct", "repeated", "special", "equal"])
@pytest.mark.parametrize("processors", [1, 2, 8])
def test_a_long_array_is_sorted_in_pieces(dtype, kind, processors, monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")
    monkeypatch.setattr("os.cpu_count", lambda: processors)
    gt.clear_plans()
    rng = np.random.default_rng(1)
    x = rng.normal(size=70_001) * 1000.0
    if kind == "repeated":
        x = np.round(x / 500.0)
    x = np.abs(x).astype(dtype) if dtype == "uint32" else x.astype(dtype)
    if kind == "equal":
        x[:] = x[0]
    if kind == "special" and dtype.startswith("float"):
        x[rng.random(x.size) < 0.3] = np.nan
        x[rng.random(x.size) < 0.3] = np.inf
    before = gt.counters().python_calls
    for descending in (False, True):
        expected = np.sort(x)[::-1] if descending else np.sort(x)
        found = gt.sort(gt.asarray(x), descending=descending).numpy()
        np.testing.assert_array_equal(found, expected)
    assert gt.counters().python_calls == before


@pytest.mark.parametrize("source", ["float64", "float32"])
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint64"])
def test_floats_become_the_integers_that_numpy_makes_of_them(source, dtype, monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")
    powers = [2.0**k for k in (7, 8, 15, 16, 31, 32, 53, 63, 64)]
    some = [0.0, 0.5, 1.9, 127.7, *powers, *(p - 1 for p in powers), 1e30, np.inf, np.nan]
    x = np.array([*some, *(-value for value in some)], source)
    with np.errstate(all="ignore"):
        expected = x.astype(dtype)
    np.testing.assert_array_equal(gt.cast(gt.asarray(x), dtype).numpy(), expected)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_shifts_and_powers_of_integers_are_those_of_numpy(dtype, monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")
    limits = np.iinfo(dtype)
    some = np.array([limits.min, 0, 1, 2, 5, 77, limits.max], dtype)
    counts = np.array([0, 1, 7, 8, 31, 32, 63, 64, 100, *([-1] * (limits.min < 0))], dtype)
    x, y = (side.reshape(-1) for side in np.meshgrid(some, counts))
    left, right = gt.asarray(x), gt.asarray(y)
    np.testing.assert_array_equal(gt.bitwise_left_shift(left, right).numpy(), np.left_shift(x, y))
    np.testing.assert_array_equal(gt.bitwise_right_shift(left, right).numpy(), np.right_shift(x, y))
    whole = gt.asarray(np.abs(y))
    np.testing.assert_array_equal(gt.pow(left, whole).numpy(), np.power(x, np.abs(y)))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["bits", "uniform", "normal", "exponential", "truncated_normal"])
@pytest.mark.parametrize("shape", [(), (3,), (257,), (41, 50)])
def test_a_seed_gives_the_same_bits_in_every_tier(name, dtype, shape, monkeypatch):
    more = {} if name == "bits" else {"dtype": dtype}
    found = []
    for mode in ("always", "off"):
        monkeypatch.setattr(tiers, "MODE", mode)
        gt.clear_plans()
        before = gt.counters().python_calls
        found.append(np.array(getattr(gt.random.Generator(5), name)(shape, **more).numpy()))
        assert gt.counters().python_calls == before
    assert found[0].tobytes() == found[1].tobytes()


def test_a_look_up_in_the_body_of_a_scan_calls_no_python(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")
    rng = np.random.default_rng(0)
    transitions, emissions = (np.log(rng.dirichlet(np.ones(6), 4)) for _ in range(2))
    seen = gt.asarray(rng.integers(0, 6, 30))

    def likelihood(moves, shown):
        def step(alpha, symbol):
            return gt.logsumexp(alpha[:, None] + moves[:, :4], axis=0) + shown[:, symbol], None

        return gt.logsumexp(gt.scan(step, shown[:, seen[0]], seen[1:])[0])

    f = gt.function(gt.value_and_grad(likelihood, argnums=(0, 1)))
    f(gt.asarray(transitions), gt.asarray(emissions))
    before = gt.counters().python_calls
    value, _ = f(gt.asarray(transitions), gt.asarray(emissions))
    value.numpy()
    assert gt.counters().python_calls == before
