"""The plan interpreter: which kernel is called on which part of its range."""

import ctypes

import pytest

from gradtape.compiler import thread_team
from gradtape.compiler.emit.plans.instructions import WORDS, Instruction, Instructions
from gradtape.compiler.emit.plans.team import team_ir
from gradtape.compiler.objects.llvm import assembly, compile_ir

# Writes lo, hi, part and its first argument to the log in slot 0, and counts the call.
RECORDER = """
define void @recorder(ptr %slots, ptr %args, i64 %lo, i64 %hi, i64 %part) {
  %log = load ptr, ptr %slots
  %count = atomicrmw add ptr %log, i64 1 acq_rel
  %row = mul i64 %count, 4
  %first = add i64 %row, 1
  %at = getelementptr i64, ptr %log, i64 %first
  store i64 %lo, ptr %at
  %hi.at = getelementptr i64, ptr %at, i64 1
  store i64 %hi, ptr %hi.at
  %part.at = getelementptr i64, ptr %at, i64 2
  store i64 %part, ptr %part.at
  %argument = load i64, ptr %args
  %argument.at = getelementptr i64, ptr %at, i64 3
  store i64 %argument, ptr %argument.at
  ret void
}
"""


@pytest.fixture(scope="module")
def recorder():
    return compile_ir(RECORDER).address("recorder")


@pytest.fixture(scope="module")
def run_plan():
    return thread_team.plan_runner()


def recorded(run_plan, instructions):
    log = (ctypes.c_int64 * 64)()
    status = ctypes.c_int64(0)
    slots = (ctypes.c_void_p * 3)(ctypes.addressof(log), 0, ctypes.addressof(status))
    plan = Instructions(instructions)
    run_plan(0, plan.address, plan.count, ctypes.addressof(slots))
    return [tuple(log[1 + 4 * row : 5 + 4 * row]) for row in range(log[0])]


def test_instructions_run_in_order(run_plan, recorder):
    plan = [Instruction(recorder, [number], 10 * number) for number in range(5)]
    assert recorded(run_plan, plan) == [(0, 10 * number, 0, number) for number in range(5)]


def test_empty_plan(run_plan):
    assert recorded(run_plan, []) == []


def test_parallel_without_a_team_is_one_call(run_plan, recorder):
    plan = [Instruction(recorder, [7], 100, grain=8, parallel=True)]
    assert recorded(run_plan, plan) == [(0, 100, 0, 7)]


def test_words_of_an_instruction():
    plan = Instructions([Instruction(1234, [5, 6], 100, 8, True), Instruction(99, [7], 3)])
    words = (ctypes.c_int64 * (2 * WORDS)).from_address(plan.address)
    assert words[0] == 1234
    assert words[2:7] == [100, 8, 1, 0, 0]
    assert words[WORDS + 2 : WORDS + 7] == [3, 1, 0, 0, 0]
    assert (ctypes.c_int64 * 2).from_address(words[1])[:] == [5, 6]
    assert (ctypes.c_int64 * 1).from_address(words[WORDS + 1])[:] == [7]
    assert plan.parallel
    assert not Instructions([Instruction(99, [7], 3)]).parallel


@pytest.mark.parametrize(
    ("machine", "system", "waits_by"),
    [
        ("x86_64", "linux", "i64 202"),
        ("aarch64", "linux", "i64 98"),
        ("riscv64", "linux", "@usleep"),
        ("arm64", "darwin", "@usleep"),
        ("AMD64", "win32", "@Sleep"),
    ],
)
def test_each_platform_waits_in_its_way(machine, system, waits_by):
    text = team_ir(machine, system)
    assert waits_by in text
    assert "$" not in text


def test_naps_compile_too():
    assert "usleep" in assembly(team_ir("unknown", "unknown"))
