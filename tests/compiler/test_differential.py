"""Compiled programs against NumPy, at random; GRADTAPE_FUZZ sets how many.

| programs | compared |
|---|---|
| exact | bit for bit, without contraction: movement, integers, + − × ÷ √, comparisons, selections |
| any | within 8 times tier 0's own spread (see spread.py): all functions, reductions, products |
| smooth | gradients, the forward pass in one tier and the backward pass in the same or another |

Inputs have every dtype, are strided, broadcast, empty or 0-d, and hold NaN and infinities.
"""

import os

import numpy as np
import pytest
from tests.compiler.random_programs import RandomProgram, restrided
from tests.compiler.spread import allowed, differing_bits, outside, parts, samples

import gradtape as gt
from gradtape.compiler.emit import builder, kernels as compile
from gradtape.compiler.emit.loops import Emitter
from gradtape.compiler.passes import optimize
from gradtape.concurrency import WeakTable
from gradtape.runtime import tiers
from gradtape.runtime.compiled_plan import CompiledPlan
from gradtape.runtime.numpy_plan import NumpyPlan
from gradtape.trace.recording import Recording, state
from gradtape.trace.value import Value

PROGRAMS = int(os.environ.get("GRADTAPE_FUZZ", "160"))
BATCHES = 8
KINDS = ("exact", "any", "smooth", "any")
# Disturbed runs at first, and before a result is called wrong.
FEW, MANY = 4, 96
# Tiers of the forward and of the backward pass.
MODES = [("off", "always"), ("always", "off"), ("always", "always")]


def numbers(batch, kind):
    return [n for n in range(batch, PROGRAMS, BATCHES) if KINDS[n // BATCHES % len(KINDS)] == kind]


class Case:
    """A program that was recorded, with the values of its inputs, strided anew."""

    def __init__(self, outputs, seed):
        self.raw = gt.program_of(*outputs)
        self.program = optimize(self.raw)
        rng = np.random.default_rng(seed)
        leaves = state.recording.leaves
        self.inputs = [_restrided(rng, leaves[node.params[0]]) for node in self.raw.inputs]

    def run(self, plan):
        found = plan(self.program).run(list(self.inputs))
        nodes = self.program.outputs
        return [np.array(Value(c, n.spec).array) for c, n in zip(found, nodes, strict=True)]


def _restrided(rng, value):
    return Value(restrided(rng, value.array), value.spec) if type(value) is Value else value


def random_outputs(number, kind):
    """Some values of a random program, the last one included."""
    state.recording = Recording()
    made = RandomProgram(number, kind)
    pool = made.apply([gt.asarray(array) for array in made.inputs()])
    return [pool[-1], pool[len(pool) // 2], pool[-2]]


def same_types(expected, got, number):
    for a, b in zip(expected, got, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), number


@pytest.mark.parametrize("batch", range(BATCHES))
def test_exact_ops_agree_to_the_bit(batch, monkeypatch):
    monkeypatch.setattr(builder, "CONTRACT", "off")
    for number in numbers(batch, "exact"):
        case = Case(random_outputs(number, "exact"), number)
        expected, got = case.run(NumpyPlan), case.run(CompiledPlan)
        same_types(expected, got, number)
        for position, (a, b) in enumerate(zip(expected, got, strict=True)):
            wrong = differing_bits(a, b)
            assert not wrong.any(), explained(number, position, case, a, b, wrong)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_compiled_agrees_within_the_spread(batch):
    for number in numbers(batch, "any"):
        case = Case(random_outputs(number, "any"), number)
        compare(case, case.run(NumpyPlan), [case.run(CompiledPlan)], number)


def compare(case, expected, several, number, each_use=False):
    """Every element of each of several results is as near as the spread of tier 0 allows."""
    few = samples(case.program, case.inputs, FEW, each_use=each_use)
    for got in several:
        same_types(expected, got, number)
        for position, (a, b) in enumerate(zip(expected, got, strict=True)):
            wrong = outside(a, b, allowed(a, few, position))
            if wrong.any():
                many = samples(case.program, case.inputs, MANY, 1000, each_use)
                wrong = outside(a, b, allowed(a, few + many, position))
            assert not wrong.any(), explained(number, position, case, a, b, wrong)


def explained(number, position, case, expected, got, wrong):
    return (
        f"program {number}, output {position}\n{case.raw}\n"
        f"expected {parts(expected)[wrong][:5]}\ngot {parts(got)[wrong][:5]}"
    )


def gradients(number, forward, backward):
    """Gradients of a random program; `forward` is None where nothing is looked at before."""
    state.recording = Recording()
    made = RandomProgram(number, "smooth")
    sources = [gt.asarray(array) for array in made.inputs()]
    tiers.MODE = forward or backward
    with gt.GradientTape() as tape:
        tape.watch(sources)
        pool = [x for x in made.apply(sources) if x.dtype.kind in "fc"]
        target = gt.sum(gt.real(pool[-1])) + gt.sum(gt.sin(gt.real(pool[len(pool) // 2])))
        del pool
        if forward:
            target.numpy()
    tiers.MODE = backward
    found = tape.gradient(target, sources, unconnected_gradients="zero")
    return [gt.asarray(g) for g in found]


def run_gradients(number, forward, backward):
    found = gradients(number, forward, backward)
    return [np.array(g.numpy()) for g in found]


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_gradients_agree_across_tiers(batch, monkeypatch):
    monkeypatch.setattr(tiers, "MODE", tiers.MODE)
    for number in numbers(batch, "smooth"):
        case = Case(gradients(number, None, "off"), number)
        expected = case.run(NumpyPlan)
        several = [case.run(CompiledPlan)]
        several += [run_gradients(number, *modes) for modes in MODES]
        compare(case, expected, several, number, each_use=True)


@pytest.fixture
def kernels_apart(monkeypatch):
    """Kernels compiled in this test are not those of others."""
    monkeypatch.setattr(compile, "_known", WeakTable())


def test_a_function_some_ulps_off_is_found(kernels_apart, monkeypatch):
    right = builder.Builder.call

    def wrong(self, name, *operands):
        found = right(self, name, *operands)
        factor = 1 + 64 * float(np.finfo(found.dtype).eps)
        return self.arithmetic("fmul", "mul", found, self.constant(factor, found.dtype))

    monkeypatch.setattr(builder.Builder, "call", wrong)
    assert any(fails(number) for number in range(40))


def test_a_sum_that_drops_its_tail_is_found(kernels_apart, monkeypatch):
    right = Emitter.mask

    def wrong(self, index, high):
        return right(self, index, self.r.subtract(high, 1))

    monkeypatch.setattr(Emitter, "mask", wrong)
    assert any(fails(number) for number in range(40))


def fails(number):
    case = Case(random_outputs(number, "any"), number)
    try:
        compare(case, case.run(NumpyPlan), [case.run(CompiledPlan)], number)
    except AssertionError:
        return True
    return False
