"""Stretches of native instructions: which of them the threads share."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler import thread_team as threads
from gradtape.compiler.lower.native_stretches import (
    PlacedKernel,
    assembled,
    kernel_codes,
)
from gradtape.config import AWAKE_LOOP_WORK, PARALLEL_LOOP_WORK
from gradtape.runtime import tiers
from gradtape.runtime.compiled_plan import CompiledPlan
from gradtape.tensor.tensor import program_of

# About 20 loads for each element of `smooth`, so between the two limits.
ELEMENTS = (AWAKE_LOOP_WORK + PARALLEL_LOOP_WORK) // 40


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")
    before = threads.get_num_threads()
    threads.set_num_threads(2)
    yield
    threads.set_num_threads(before)


def shared_loops(*tensors):
    """Of each loop of a plan: its work, and whether threads share it."""
    items = CompiledPlan(program_of(*tensors)).lowered.items
    found = assembled(items, kernel_codes(items))
    pairs = zip(items, found.instructions, strict=True)
    return [(each.work, each.parallel) for item, each in pairs if isinstance(item, PlacedKernel)]


def smooth(count):
    x = gt.asarray(np.linspace(0.0, 1.0, count))
    return gt.sin(x) * gt.exp(x)


def test_a_small_loop_is_not_worth_waking_a_thread():
    ((work, shared),) = shared_loops(smooth(ELEMENTS))
    assert AWAKE_LOOP_WORK <= work < PARALLEL_LOOP_WORK
    assert not shared


def test_a_small_loop_is_shared_beside_a_product():
    square = gt.asarray(np.ones((128, 128)))
    assert [shared for _, shared in shared_loops(smooth(ELEMENTS), square @ square)] == [True]
    assert [shared for _, shared in shared_loops(smooth(64), square @ square)] == [False]


def test_a_small_loop_is_shared_beside_a_large_one():
    loops = shared_loops(smooth(ELEMENTS), smooth(40 * ELEMENTS))
    assert [shared for _, shared in sorted(loops)] == [True, True]
