"""One test for all ops: whatever the registry holds is held to what its declaration says."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from tests.ops.cases import OPS, Case, at_samples

import gradtape as gt
from gradtape.autodiff.modes import ones_like, reverse
from gradtape.compiler.passes import PASSES
from gradtape.errors import UndefinedRuleError
from gradtape.ir.node import apply, outputs, placeholder
from gradtape.ir.op import Undefined
from gradtape.ir.program import Program, program
from gradtape.ir.row_cotangents import Rows
from gradtape.ir.spec import spec
from gradtape.ir.verify import verify
from gradtape.ops.custom.custom import CUSTOM
from gradtape.pytree import flatten
from gradtape.runtime import tiers
from gradtape.runtime.numpy_plan import NumpyPlan
from gradtape.tensor.tensor import asarray
from gradtape.testing import check_gradients
from gradtape.trace.record import record
from gradtape.trace.recording import Recording, state


@pytest.fixture(autouse=True)
def reference_tier(monkeypatch):
    """What an op's declaration says is about NumPy's kernels; tests/compiler has the others."""
    monkeypatch.setattr(tiers, "MODE", "off")


DOUBLE = (np.dtype("float64"), np.dtype("complex128"))


def at_each_sample(chosen: Any = lambda case: True) -> Any:
    """Make a test of what has to hold for one case."""

    def decorate(check: Any) -> Any:
        @at_samples(chosen)
        def test(cases: list[Case]) -> None:
            for case in cases:
                # What one case left behind must not stay pending in the next.
                state.recording, state.tapes = Recording(), []
                try:
                    check(case)
                except Exception as error:
                    error.add_note(f"The case is {case}.")
                    raise

        return test

    return decorate


def is_checkable(case: Case) -> bool:
    return (
        case.differentiable
        and case.sample.order > 0
        and all(case.inputs[position].dtype in DOUBLE for position in case.inexact)
    )


def is_maskable(case: Case) -> bool:
    return case.differentiable and not isinstance(case.result, tuple)


def is_undefined(case: Case) -> bool:
    if case.op is CUSTOM:  # its rules are Python closures: gradtape.custom records them beside it
        return False
    rules = (case.op.jvp, case.op.vjp)
    return bool(case.inexact) and any(isinstance(rule, Undefined) for rule in rules)


def is_poisonable(case: Case) -> bool:
    return (
        is_maskable(case)
        and case.op.family == "elementwise"
        and case.op.mask is not None
        and case.result.size > 1
    )


def same_bits(got: Any, expected: Any) -> bool:
    got, expected = np.asarray(got), np.asarray(expected)
    return (got.shape, got.dtype, got.tobytes()) == (
        expected.shape,
        expected.dtype,
        expected.tobytes(),
    )


def gradients(function: Any, sources: list[Any]) -> list[Any]:
    """Gradients as arrays, None where unconnected."""
    with gt.GradientTape() as tape:
        tape.watch(sources)
        target = function(*sources)
    found = tape.gradient(target, sources, unconnected_gradients="none")
    return [None if gradient is None else asarray(gradient).numpy() for gradient in found]


def test_every_op_has_samples():
    without = [op.name for op in OPS if not op.samples()]
    assert not without, f"these declare no samples: {without}"


@at_each_sample()
def test_kernel_agrees_with_spec(case):
    expected = case.op.spec(*case.promoted, **case.sample.params)
    expected = expected if isinstance(expected, tuple) else (expected,)
    found = case.kernel()
    assert len(found) == len(expected)
    for array, of in zip(found, expected, strict=True):
        assert isinstance(array, (np.ndarray, np.generic)), type(array)
        assert (array.shape, array.dtype) == (of.shape, of.dtype)


@at_each_sample()
def test_recorded_equals_kernel(case):
    recorded = record(case.op, tuple(asarray(array) for array in case.inputs), case.params)
    recorded = recorded if isinstance(recorded, tuple) else (recorded,)
    for tensor, array in zip(recorded, case.kernel(), strict=True):
        assert same_bits(tensor.numpy(), array)


@at_each_sample(is_checkable)
def test_derivatives(case):
    check_gradients(case.call, *case.sources(), order=case.sample.order)


@at_each_sample(lambda case: case.differentiable)
def test_gradient_has_the_dtype_of_its_source(case):
    found: list[Any] = [None] * len(case.inexact)
    with refusal_allowed(case):
        found = gradients(case.call, case.sources())
    for position, gradient in zip(case.inexact, found, strict=True):
        if gradient is not None:
            assert gradient.dtype == case.inputs[position].dtype
            assert gradient.shape == case.inputs[position].shape


@at_each_sample(is_undefined)
def test_undefined_derivative_says_why(case):
    sources = case.sources()
    tangents = [asarray(np.ones(source.shape, source.dtype)) for source in sources]

    def backward():
        return gradients(case.call, sources)

    def forward():
        with gt.ForwardAccumulator(sources, tangents) as accumulator:
            result = case.call(*sources)
        return flatten(accumulator.jvp(result))[0]

    for rule, ask in ((case.op.vjp, backward), (case.op.jvp, forward)):
        if not isinstance(rule, Undefined):
            continue
        if any(found.inexact for found in case.results):
            with pytest.raises(UndefinedRuleError) as caught:
                ask()
            assert rule.why in str(caught.value)
            assert case.op.name in str(caught.value)
        else:
            assert all(found is None for found in ask())


def refusal_allowed(case: Case) -> Any:
    """A rule may refuse for some params, such as a full basis; such a sample says order 0."""
    refused = (UndefinedRuleError,) if case.sample.order == 0 else ()
    return contextlib.suppress(*refused)


@at_each_sample(is_maskable)
def test_mask_is_all_or_nothing(case):
    sources = case.sources()

    def masked(value: bool) -> list[Any]:
        condition = asarray(np.full(case.result.shape, value))
        return gradients(lambda *xs: gt.where(condition, case.call(*xs), 0), sources)

    for plain, nothing, everything in zip(
        gradients(case.call, sources), masked(False), masked(True), strict=True
    ):
        if plain is None:
            assert nothing is None
            assert everything is None
        else:
            assert not nothing.any()
            np.testing.assert_allclose(everything, plain, rtol=1e-6, atol=1e-12)


@at_each_sample(is_poisonable)
def test_masked_out_elements_leave_no_trace(case):
    for poison in (np.nan, np.inf, 0.0):
        check_poison(case, poison)


def check_poison(case: Case, poison: float) -> None:
    condition = np.arange(case.result.size).reshape(case.result.shape) % 2 == 0
    clean, poisoned, kept = case.sources(), [], []
    for source in clean:
        used = uses(condition, source.shape)
        kept.append(used)
        poisoned.append(asarray(np.where(used, source.numpy(), source.dtype.type(poison))))

    def function(*xs: Any) -> Any:
        return gt.where(asarray(condition), case.call(*xs), 0)

    expected, got = gradients(function, clean), gradients(function, poisoned)
    for plain, found, used in zip(expected, got, kept, strict=True):
        if plain is not None:
            assert not found[~used].any()
            np.testing.assert_allclose(found[used], plain[used], rtol=1e-6, atol=1e-12)


def uses(condition: Any, shape: Any) -> Any:
    """Where an operand of this shape reaches an element of the result that is kept."""
    lead = condition.ndim - len(shape)
    stretched = tuple(range(lead)) + tuple(
        lead + axis for axis, n in enumerate(shape) if n == 1 and condition.shape[lead + axis] != 1
    )
    return np.any(condition, axis=stretched).reshape(shape)


def slopes(found: tuple[Any, ...], sources: list[Any]) -> tuple[Any, ...]:
    """The cotangents of the sources, dense, for ones above every inexact result."""
    targets = [node for node in found if node.spec.inexact]
    pulled = reverse(targets, [ones_like(node) for node in targets], sources)
    dense = [slope.dense() if isinstance(slope, Rows) else slope for slope in pulled]
    return tuple(slope for slope in dense if slope is not None)


@at_each_sample()
def test_passes_change_no_bit(case):
    nodes = tuple(placeholder(spec(array.shape, array.dtype)) for array in case.inputs)
    values = dict(zip(nodes, case.inputs, strict=True))
    root = apply(case.op, nodes, case.params)
    found = outputs(root) if isinstance(root.spec, tuple) else (root,)
    if case.differentiable:
        with refusal_allowed(case):
            found += slopes(found, [nodes[position] for position in case.inexact])

    def run(written: Program) -> list[Any]:
        return NumpyPlan(written).run([values[node] for node in written.inputs])

    before = verify(program(found))
    expected = run(before)
    for step in PASSES:
        after = verify(step(before))
        for got, want in zip(run(after), expected, strict=True):
            # LAPACK may take another path where memory is aligned otherwise.
            library = case.op.family == "library" and np.allclose(got, want, 1e-12, 1e-12)
            assert library or same_bits(got, want), f"{step.__name__} changed the value"
        before = after
