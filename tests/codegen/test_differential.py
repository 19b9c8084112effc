"""Compiled kernels against NumPy on random programs; GRADTAPE_FUZZ sets how many."""

import os

import numpy as np
import pytest

import gradtape as gt
from gradtape.graph.recording import Recording, Value, state
from gradtape.optimize import optimize
from gradtape.runtime.compiled import CompiledPlan
from gradtape.runtime.plan import Plan

PROGRAMS = int(os.environ.get("GRADTAPE_FUZZ", "160"))
BATCHES = 8

UNARY = [
    gt.negative, gt.abs, gt.square, gt.sin, gt.cos, gt.exp, gt.tanh, gt.sigmoid, gt.relu, gt.sign,
    gt.floor, gt.softplus, lambda x: gt.log(gt.abs(x) + 0.5), lambda x: gt.sqrt(gt.abs(x)),
    lambda x: x**3, lambda x: x * 0.5 + 1.0, lambda x: 1.0 / (gt.abs(x) + 1.0), gt.expm1,
    lambda x: gt.clip(x, -1.0, 1.0), lambda x: gt.cast(gt.cast(x, gt.float32), x.dtype),
]  # fmt: skip
BINARY = [
    gt.add, gt.subtract, gt.multiply, gt.maximum, gt.minimum, gt.atan2,
    lambda x, y: x / (gt.abs(y) + 1.0), lambda x, y: gt.where(x > y, x, y * 2.0),
    lambda x, y: gt.where(gt.isfinite(x) & (y <= 0.0), x, 0.0),
]  # fmt: skip


def random_shape(rng):
    return tuple(
        int(n)
        for n in rng.choice(
            [0, 1, 2, 3, 7, 17, 33], rng.integers(0, 4), p=(0.02, 0.2, 0.2, 0.18, 0.15, 0.15, 0.1)
        )
    )


def random_input(rng, shape, dtype):
    values = rng.standard_normal(shape) * rng.choice([0.1, 1.0, 3.0])
    values = np.asarray(values, dtype)
    if values.size and rng.random() < 0.2:
        flat = values.reshape(-1)
        flat[rng.integers(flat.size)] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0])
    return values


def moved(rng, x):
    """A view of x, or x."""
    choice = rng.integers(6)
    if choice == 0 and x.ndim > 1:
        return gt.permute_dims(x, tuple(int(a) for a in rng.permutation(x.ndim)))
    if choice == 1:
        return gt.reshape(x, (x.size,))
    if choice == 2 and x.ndim and x.shape[0] > 1:
        return x[:: int(rng.choice([1, 2, -1]))]
    if choice == 3:
        return gt.broadcast_to(x, (2, *x.shape))
    return x


def reduced(rng, x):
    kind = rng.choice(["sum", "max", "min", "mean", "prod"])
    if not x.ndim or not x.size:
        return gt.sum(x)
    count = int(rng.integers(1, x.ndim + 1))
    axes = tuple(int(a) for a in rng.choice(x.ndim, count, replace=False))
    return getattr(gt, kind)(
        gt.tanh(x) if kind == "prod" else x, axis=axes, keepdims=bool(rng.integers(2))
    )


def joined(rng, x, y):
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return None
    return BINARY[rng.integers(len(BINARY))](x, y)


def random_program(seed):
    rng = np.random.default_rng(seed)
    dtype = rng.choice([np.float32, np.float64])
    inputs = [gt.asarray(random_input(rng, random_shape(rng), dtype)) for _ in range(2)]
    pool = list(inputs)
    for _ in range(int(rng.integers(2, 12))):
        x = pool[rng.integers(len(pool))]
        if x.size > 5000:
            continue
        kind = rng.random()
        if kind < 0.4:
            new = UNARY[rng.integers(len(UNARY))](x)
        elif kind < 0.7:
            new = joined(rng, x, pool[rng.integers(len(pool))])
        elif kind < 0.85:
            new = moved(rng, x)
        else:
            new = reduced(rng, x)
        if new is not None:
            pool.append(new)
    outputs = [pool[-1], pool[len(pool) // 2]]
    if rng.random() < 0.4 and all(o.dtype.kind == "f" for o in outputs):
        with gt.GradientTape() as tape:
            sources = [i.copy() for i in inputs]
            tape.watch(sources)
            y = gt.sum(gt.sin(sources[0])) * gt.sum(gt.tanh(sources[1]) * sources[1])
        outputs += tape.gradient(y, sources)
    return outputs


def arrays_of(plan, program, values):
    found = []
    for content, node in zip(plan.run(list(values)), program.outputs, strict=True):
        found.append(np.array(Value(content, node.spec).array))
    return found


def nudged(value, rng):
    """The value with each element one unit in the last place up or down."""
    if type(value) is not Value or value.array.dtype.kind != "f":
        return value
    directions = rng.choice([-np.inf, np.inf], value.array.shape).astype(value.array.dtype)
    array = np.nextafter(value.array, directions)
    return Value(np.where(np.isfinite(value.array), array, value.array), value.spec)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_compiled_agrees_with_numpy(batch):
    for number in range(batch, PROGRAMS, BATCHES):
        state.recording = recording = Recording()
        outputs = random_program(number)
        raw = gt.program_of(*outputs)
        known = [recording.leaves[node.params[0]] for node in raw.inputs]
        program = optimize(raw)
        expected = arrays_of(Plan(program), program, known)
        got = arrays_of(CompiledPlan(program), program, known)
        rng = np.random.default_rng(number)
        spread = [
            arrays_of(Plan(program), program, [nudged(v, rng) for v in known]) for _ in range(4)
        ]
        for position, (a, b) in enumerate(zip(expected, got, strict=True)):
            assert a.shape == b.shape, (number, position)
            assert a.dtype == b.dtype, (number, position)
            message = f"program {number}, output {position}\n{raw}"
            check(a, b, [s[position] for s in spread], tolerance(program), message)


def tolerance(program):
    """How many times the spread: more where many terms are added in another order than NumPy's."""
    long = any(
        node.op.name in ("sum", "prod") and node.inputs[0].size > 64 * max(node.size, 1)
        for node in program.nodes
    )
    return 256 if long else 8


def check(expected, got, spread, factor, message):
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(got, expected, message)
        return
    with np.errstate(all="ignore"):
        wide = np.max([np.abs(s - expected) for s in spread], axis=0)
        unit = np.spacing(np.abs(expected)).astype(expected.dtype)
        slack = factor * np.nan_to_num(wide, nan=np.inf, posinf=np.inf)
        slack = slack + 2 * factor * np.nan_to_num(unit)
        # Sums of many terms: the spread of one input says little of cancellation.
        finite = np.abs(expected[np.isfinite(expected)])
        slack = slack + 64 * np.finfo(expected.dtype).eps * finite.max(initial=0.0)
        bad = ~(
            (np.abs(got - expected) <= slack)
            | (got == expected)
            | (np.isnan(got) & np.isnan(expected))
        )
    assert not bad.any(), f"{message}\n{expected[bad][:5]} {got[bad][:5]}"
