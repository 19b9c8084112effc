"""Routines: loops, conditions and words, compiled and run."""

import ctypes

import pytest

from gradtape.compiler.emit.writer import Routine
from gradtape.compiler.objects.llvm import callable_at, compile_ir

POINTER, WORD = ctypes.c_void_p, ctypes.c_int64


def compiled(routine):
    address = compile_ir(routine.text()).address("f")
    return callable_at(address, POINTER, WORD)


def run(routine, words, number):
    memory = (ctypes.c_int64 * len(words))(*words)
    compiled(routine)(ctypes.addressof(memory), number)
    return list(memory)


@pytest.mark.parametrize(("count", "found"), [(-1, 0), (0, 0), (1, 0), (5, 10)])
def test_loop_runs_for_each_number_below_a_count(count, found):
    r = Routine("void @f(ptr %words, i64 %count)")
    with r.loop("%count") as index:
        r.add_to("%words", 0, index)
    r.end("ret void")
    assert run(r, [0], count) == [found]


@pytest.mark.parametrize(("count", "found"), [(0, 0), (3, 0), (4, 3), (6, 12)])
def test_loop_from_a_start(count, found):
    r = Routine("void @f(ptr %words, i64 %count)")
    with r.loop("%count", 3) as index:
        r.add_to("%words", 0, index)
    r.end("ret void")
    assert run(r, [0], count) == [found]


def test_nested_loops_and_conditions():
    r = Routine("void @f(ptr %words, i64 %count)")
    with (
        r.loop("%count") as row,
        r.loop("%count") as column,
        r.when(r.compare("slt", column, row)),
    ):
        r.add_to("%words", 0, 1)
    r.end("ret void")
    assert run(r, [0], 5) == [10]


def test_go_leaves_a_loop():
    r = Routine("void @f(ptr %words, i64 %count)")
    with r.loop("%count") as index:
        r.go_if(r.equal(index, 2), "out")
        r.add_to("%words", 0, 1)
    r.block("out")
    r.end("ret void")
    assert run(r, [0], 9) == [2]


def test_words_by_name():
    r = Routine("void @f(ptr %words, i64 %number)")
    words = r.words("%words", ("x", "y", "sum"))
    r.put("%words", 16, r.add(words["x"], r.multiply(words["y"], "%number")))
    r.end("ret void")
    assert run(r, [3, 4, 0], 10) == [3, 4, 43]


def test_nothing_follows_the_end_of_a_block():
    r = Routine("void @f(ptr %words, i64 %number)")
    r.end("ret void")
    r.put("%words", 0, 1)
    assert run(r, [7], 0) == [7]


@pytest.mark.parametrize(("before", "after"), [(0, 1), (5, 5)])
def test_atomic_replacement(before, after):
    r = Routine("void @f(ptr %words, i64 %number)")
    with r.when(r.replaced("%words", 0, 1, "acq_rel acquire")):
        r.put("%words", 8, 1)
    r.end("ret void")
    assert run(r, [before, 0], 0) == [after, int(before == 0)]


@pytest.mark.parametrize("count", [0, 1, 5])
def test_fold_carries_values_from_round_to_round(count):
    r = Routine("void @f(ptr %words, i64 %count)")
    with r.fold("%count", ["7", "1"]) as fold:
        total, product = fold.values
        fold.values = [r.add(total, r.multiply(fold.index, 4)), r.multiply(total, product)]
        with r.when(r.equal(fold.index, 100)):
            r.put("%words", 0, 0)
    for place, value in enumerate(fold.values):
        r.put("%words", 8 * place, value)
    r.end("ret void")
    expected = [7, 1]
    for index in range(count):
        expected = [expected[0] + 4 * index, expected[0] * expected[1]]
    assert run(r, [0, 0], count) == expected
