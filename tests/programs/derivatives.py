"""Derivatives at random, every way against every other, in the fashion of ∇Fuzz.

    python -m tests.programs.derivatives --count 1000 --seed 0

Problems are ops of the registry near their samples, and random compositions of 2 to 6 ops. Each is
compared in all ways that apply to it; a mismatch is printed with the number that repeats it.
"""

import argparse
import functools
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from tests.autodiff.random_functions import KINDS, apply
from tests.ops.cases import CASES

import gradtape as gt
import gradtape.control.callbacks  # fills hooks that kernels of callbacks need
from gradtape.errors import UndefinedRuleError
from gradtape.ops.families.samples import Sample
from gradtape.pytree import flatten
from gradtape.runtime import tiers
from gradtape.trace.recording import Recording, state

Arrays = list[np.ndarray]
# Jacobians and batches of larger problems would take most of the time.
LARGEST = 60
# A prime, so that all samples are reached.
STEP = 211
DIFFERENTIABLE = [
    case
    for case in CASES
    if case.differentiable
    and case.sample.order > 0
    and all(case.inputs[at].dtype in (np.float64, np.complex128) for at in case.inexact)
    and all(case.inputs[at].size for at in case.inexact)
]


@dataclass
class Problem:
    """A function of tensors, a point, and what can be asked there."""

    name: str
    f: Callable[..., list[gt.Tensor]]
    points: Arrays
    order: int
    kernel: Arrays | None = None
    # Whether it checks its operands: the functions in front of movement ops and indexing do.
    checked: bool = True
    rng: np.random.Generator = field(default_factory=np.random.default_rng)

    def weights(self, like: Arrays) -> Arrays:
        return [_normal(self.rng, one) for one in like]


def _normal(rng, like):
    found = rng.normal(size=like.shape)
    return found + 1j * rng.normal(size=like.shape) if like.dtype.kind == "c" else found


def of_registry(number: int) -> Problem:
    rng = np.random.default_rng(number)
    # In steps, so that few problems reach ops of every kind.
    case = DIFFERENTIABLE[number // 2 * STEP % len(DIFFERENTIABLE)]
    inputs = list(case.inputs)
    for at in case.inexact:
        inputs[at] = inputs[at] * (1.0 + 0.01 * rng.uniform(-1.0, 1.0, inputs[at].shape))
    moved = type(case)(case.op, Sample(tuple(inputs), case.sample.params), case.number)

    def f(*sources):
        return [one for one in flatten(moved.call(*sources))[0] if one.dtype.kind in "fc"]

    kernel = [np.asarray(one) for one in moved.kernel() if one.dtype.kind in "fc"]
    points = [inputs[at] for at in case.inexact]
    checked = case.op.promote is not None
    return Problem(str(case), f, points, case.sample.order, kernel, checked, rng)


def of_composition(number: int) -> Problem:
    rng = np.random.default_rng(number)
    count = int(rng.integers(2, 7))
    steps = [tuple(map(int, rng.integers(0, (len(KINDS), 36, 10, 10)))) for _ in range(count)]
    shapes = [(2, 3), (3,), (4,), (), (1,), (2, 1, 2), (1, 4)]
    points = [rng.uniform(-1.0, 1.0, shapes[at]) for at in rng.integers(0, len(shapes), 2)]
    return Problem(f"composition {steps}", lambda *xs: [apply(steps, *xs)], points, 2, rng=rng)


def problem(number: int) -> Problem:
    """Even numbers are ops of the registry in turn, odd ones are compositions."""
    return of_composition(number) if number % 2 else of_registry(number)


# The ways to a derivative. Products with weights and directions stand for whole Jacobians.


def values(found) -> Arrays:
    return [np.array(one.numpy()) for one in found]


def inner(xs, ys) -> float:
    """The real inner product of lists of arrays."""
    return float(sum(np.real(np.vdot(x, y)) for x, y in zip(xs, ys, strict=True)))


def weighted(found, weights):
    """The same product as `inner`, of tensors."""
    return sum(gt.sum(gt.real(gt.conj(w) * y)) for w, y in zip(weights, found, strict=True))


def gradient(f, weights):
    def pulled(*xs):
        xs = [gt.multiply(x, 1.0) for x in xs]
        with gt.GradientTape() as tape:
            tape.watch(xs)
            loss = weighted(f(*xs), weights)
        found = tape.gradient(loss, xs, unconnected_gradients="zero")
        return [gt.asarray(one) for one in found]

    return pulled


def pushed(f, directions):
    def forward(*xs):
        tangents = tuple(map(gt.asarray, directions))
        return gt.jvp(lambda *xs: tuple(f(*xs)), tuple(map(gt.asarray, xs)), tangents)[1]

    return lambda *xs: list(forward(*xs))


def difference(f, points, directions, weights) -> float | None:
    """A central difference of <weights, f>, or None where two steps differ: no smooth point."""
    slopes = []
    for step in (2e-4, 1e-4):
        ahead, behind = (
            values(f(*[gt.asarray(x + s * d) for x, d in zip(points, directions, strict=True)]))
            for s in (step, -step)
        )
        slopes.append((inner(weights, ahead) - inner(weights, behind)) / (2 * step))
    better = (4.0 * slopes[1] - slopes[0]) / 3.0
    scale = 1e-3 + abs(better)
    return better if abs(slopes[1] - slopes[0]) < 1e-5 * scale else None


def in_tier(mode, f, points) -> Arrays:
    before, tiers.MODE = tiers.MODE, mode
    try:
        state.recording = Recording()
        return values(f(*map(gt.asarray, points)))
    finally:
        tiers.MODE = before


# Comparisons: each yields pairs that must agree, with a tolerance.


def compare_values(p: Problem) -> Iterator:
    direct = values(p.f(*map(gt.asarray, p.points)))
    xs = list(map(gt.asarray, p.points))
    with gt.GradientTape() as tape:
        tape.watch(xs)
        recorded = p.f(*xs)
    yield "direct = under a tape", direct, values(recorded), 1e-13
    if p.kernel is not None:
        yield "direct = NumPy", direct, p.kernel, 1e-13


def compare_first(p: Problem) -> Iterator:
    direct = values(p.f(*map(gt.asarray, p.points)))
    weights, directions = p.weights(direct), p.weights(p.points)
    backward = inner(values(gradient(p.f, weights)(*p.points)), directions)
    forward = inner(weights, values(pushed(p.f, directions)(*p.points)))
    yield "reverse = forward", [backward], [forward], 1e-9
    slope = difference(p.f, p.points, directions, weights)
    if slope is not None:
        yield "forward = differences", [forward], [slope], 1e-5


def compare_second(p: Problem) -> Iterator:
    if p.order < 2:
        return
    weights = p.weights(values(p.f(*map(gt.asarray, p.points))))
    along, across = p.weights(p.points), p.weights(p.points)
    slope = gradient(p.f, weights)
    over_reverse = inner(across, values(pushed(slope, along)(*p.points)))
    over_forward = inner(across, values(gradient(pushed(p.f, along), weights)(*p.points)))
    twice = inner(along, values(gradient(slope, across)(*p.points)))
    yield "forward over reverse = reverse over forward", [over_reverse], [over_forward], 1e-8
    yield "forward over reverse = reverse over reverse", [over_reverse], [twice], 1e-8
    found = difference(slope, p.points, along, across)
    if found is not None:
        yield "second order = differences", [over_reverse], [found], 1e-5


def compare_tiers(p: Problem) -> Iterator:
    weights = p.weights(values(p.f(*map(gt.asarray, p.points))))
    directions = p.weights(p.points)
    ways = {"values": p.f, "reverse": gradient(p.f, weights), "forward": pushed(p.f, directions)}
    if p.order > 1:
        ways["second order"] = pushed(gradient(p.f, weights), directions)
    for name, way in ways.items():
        plain, compiled = (in_tier(mode, way, p.points) for mode in ("off", "always"))
        yield f"tier 0 = tier 1, {name}", plain, compiled, 1e-8


def compare_batches(p: Problem) -> Iterator:
    if sum(x.size for x in p.points) > LARGEST:
        return
    weights = p.weights(values(p.f(*map(gt.asarray, p.points))))
    examples = [
        [x * (1.0 + 0.01 * p.rng.uniform(-1.0, 1.0, x.shape)) for x in p.points] for _ in range(3)
    ]
    stacked = [np.stack(rows) for rows in zip(*examples, strict=True)]
    for name, way in {"values": p.f, "reverse": gradient(p.f, weights)}.items():
        mapped = values(gt.vmap(lambda *xs, way=way: tuple(way(*xs)))(*stacked))
        each = [values(way(*map(gt.asarray, example))) for example in examples]
        looped = [np.stack(rows) for rows in zip(*each, strict=True)]
        yield f"vmap = loop, {name}", mapped, looped, 1e-8


def compare_jacobians(p: Problem) -> Iterator:
    size = max(x.size for x in p.points)
    real = all(x.dtype.kind == "f" for x in p.points)
    outputs = values(p.f(*map(gt.asarray, p.points))) if real else []
    if not real or size > LARGEST or sum(map(np.size, outputs)) > LARGEST:
        return
    if any(one.dtype.kind == "c" for one in outputs):
        return

    def flat(*xs):
        return gt.concat([gt.reshape(one, (-1,)) for one in p.f(*xs)])

    for at in range(len(p.points)):
        dense = gt.jacobian(flat, at)(*p.points).numpy()
        dense = dense.reshape(dense.shape[0], p.points[at].size)
        sparse = gt.jacobian(flat, at, sparse=True)(*p.points).toarray()
        yield "sparse Jacobian = dense", [sparse], [dense], 1e-8


def compare_functions(p: Problem) -> Iterator:
    weights = p.weights(values(p.f(*map(gt.asarray, p.points))))
    for name, way in {"values": p.f, "reverse": gradient(p.f, weights)}.items():
        expected = values(way(*map(gt.asarray, p.points)))
        made = gt.function(way)
        for _ in range(3):
            found = values(made(*map(gt.asarray, p.points)))
            yield f"gt.function = undecorated, {name}", found, expected, 1e-9


def compare_errors(p: Problem) -> Iterator:
    """A wrong shape or dtype of one operand is the same error in every mode, or in none."""
    if not p.checked:
        return
    at = int(p.rng.integers(len(p.points)))
    bad = list(p.points)
    shape = bad[at].shape
    bad[at] = [
        np.zeros((*shape, 7)), np.zeros(shape[:-1]), np.zeros((*shape[:-1], 5)), np.zeros((0,)),
        np.zeros(shape, bool), np.zeros(shape, "complex64"), np.zeros(shape, "int32"),
    ][int(p.rng.integers(7))]  # fmt: skip
    expected = raised(p.f, bad)

    def under_a_tape(*xs):
        with gt.GradientTape() as tape:
            tape.watch([x for x in xs if x.dtype.kind in "fc"])
            return p.f(*xs)

    modes = {"a tape": under_a_tape, "gt.function": gt.function(p.f)}
    if all(x.dtype.kind in "fc" for x in bad):
        modes["forward"] = lambda *xs: gt.jvp(lambda *xs: tuple(p.f(*xs)), xs, xs)[0]
    for name, mode in modes.items():
        yield f"errors: direct = {name}", raised(mode, bad), expected, None


def raised(f, points) -> str:
    try:
        values(f(*map(gt.asarray, points)))
    except Exception as error:
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
    return "no error"


COMPARISONS = (
    compare_values, compare_first, compare_second, compare_tiers, compare_batches,
    compare_jacobians, compare_functions, compare_errors,
)  # fmt: skip


def disagreement(found, expected, tolerance) -> str:
    if tolerance is None:
        return "" if found == expected else f"{found!r} for {expected!r}"
    if len(found) != len(expected):
        return f"{len(found)} results for {len(expected)}"
    for one, other in zip(found, expected, strict=True):
        one, other = np.asarray(one), np.asarray(other)
        if one.shape != other.shape:
            return f"shape {one.shape} for {other.shape}"
        scale = max(1.0, float(np.max(np.abs(other), initial=0.0)))
        scale = scale if math.isfinite(scale) else 1.0
        if not np.allclose(one, other, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
            return f"{one} for {other}"
    return ""


@dataclass
class Report:
    """How often each comparison was made, and the sentences about those that failed."""

    counts: Counter = field(default_factory=Counter)
    mismatches: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{count:7} {name}" for name, count in sorted(self.counts.items())]
        return "\n".join([*lines, f"{len(self.mismatches)} mismatches"])


def check(number: int, report: Report) -> None:
    """All comparisons of one problem."""
    p = problem(number)
    for comparison in COMPARISONS:
        state.recording = Recording()
        p.rng = np.random.default_rng((number, COMPARISONS.index(comparison)))
        name = comparison.__name__
        try:
            with np.errstate(all="ignore"):
                for name, found, expected, tolerance in comparison(p):
                    report.counts[name] += 1
                    wrong = disagreement(found, expected, tolerance)
                    if wrong:
                        report.mismatches.append(f"--only {number} · {p.name} · {name}: {wrong}")
        except UndefinedRuleError:
            report.counts["refused with a reason"] += 1
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            report.mismatches.append(f"--only {number} · {p.name} · after {name}: {text[:500]}")


def run(numbers: Iterable[int], told: Callable[[str], object] = lambda text: None) -> Report:
    """The report on some problems; mismatches are told at once."""
    report = Report()
    for number in numbers:
        before = len(report.mismatches)
        check(number, report)
        for text in report.mismatches[before:]:
            told(text)
    return report


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the number of one problem")
    chosen = parser.parse_args()
    first = 1_000_000 * chosen.seed if chosen.only is None else chosen.only
    count = chosen.count if chosen.only is None else 1
    found = run(range(first, first + count), functools.partial(print, flush=True))
    print(found)
    sys.exit(bool(found.mismatches))
