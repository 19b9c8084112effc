"""Integer loops: what is translated does what Python does."""

import numpy as np
import pytest
import scipy.sparse as sp

from gradtape.autodiff.sparse import greedy, loop_runner
from gradtape.autodiff.sparse.choose_colouring import colour_symmetric
from gradtape.autodiff.sparse.colouring import ORDERS, colour_columns
from gradtape.autodiff.sparse.pattern import pattern_of
from gradtape.compiler.emit.integer_loops import compile_integers, integer_text


def collatz(count, lengths):
    longest = 0
    for start in range(1, count):
        value = start
        length = 0
        while value != 1:
            if value % 2 == 0:
                value = value // 2
            else:
                value = 3 * value + 1
            length += 1
        lengths[start] = length
        if not length <= longest:
            longest = length
    return longest


def first_above(count, values, bound):
    for i in range(0, count, 2):
        if i == 4 or values[i] < 0:
            continue
        if i < count and values[i] > bound and bound >= 0:
            return i
    return -1


def above(count, values, found):
    for bound in range(count):
        found[bound] = first_above(count, values, bound)
        if bound == 5:
            break
    return found[0] - (found[1] == 2)


def test_loops_and_branches():
    compiled = compile_integers([collatz])["collatz"]
    expected, found = np.zeros((2, 300), np.int64)
    assert compiled(300, found) == collatz(300, expected)
    assert (found == expected).all()


def test_calls_breaks_and_short_circuits():
    compiled = compile_integers([first_above, above])
    values = np.array([0, 9, 3, 1, 8, 2, -4, 0, 5, 7], np.int64)
    expected, found = np.zeros((2, 10), np.int64)
    assert compiled["above"](10, values, found) == above(10, values, expected)
    assert (found == expected).all()


def test_what_cannot_be_translated_is_refused():
    def doubled(count, values):
        return sum(values)

    with pytest.raises(NotImplementedError, match=r"`sum\(values\)` in doubled"):
        compile_integers([doubled])


def test_text_can_be_read():
    assert "define i64 @collatz(i64 %count, ptr noalias %lengths)" in integer_text([collatz])


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_native_colours_are_those_of_python(order, monkeypatch):
    rng = np.random.default_rng(0)
    matrix = sp.csr_array(np.where(rng.random((80, 80)) < 0.05, 1.0, 0.0)) + sp.eye_array(80)
    pattern, symmetric = pattern_of(matrix), pattern_of(matrix + matrix.T)

    def all_colours():
        found = [colour_columns(pattern, (order,)).of]
        for method in ("star", "acyclic"):
            coloured = colour_symmetric(symmetric, method)
            coloured.substitution  # noqa: B018 - its elimination is a loop too
            found.append(coloured.columns.of)
        return found

    monkeypatch.setattr(loop_runner, "_compiled", {})
    monkeypatch.setattr(loop_runner, "_compiled_loops", lambda functions: None)
    expected = all_colours()
    monkeypatch.setattr(loop_runner, "_compiled_loops", compile_integers)
    monkeypatch.setattr(loop_runner, "WORTH_COMPILING_LOOP", 0)
    monkeypatch.setattr(loop_runner, "WORTH_CALLING_LOOP", 0)
    for got, want in zip(all_colours(), expected, strict=True):
        assert (got == want).all()
    assert set(loop_runner._compiled) >= {
        "colour_apart",
        "colour_stars",
        "colour_trees",
        "peel_trees",
    }


def test_without_a_compiler_python_runs(monkeypatch):
    monkeypatch.setattr(loop_runner, "_compiled", {})
    monkeypatch.setattr(loop_runner, "_compiled_loops", lambda functions: None)
    monkeypatch.setattr(loop_runner, "WORTH_COMPILING_LOOP", 0)
    assert colour_columns(pattern_of(np.eye(5) + np.eye(5, k=1)), ORDERS).count == 2
    assert loop_runner._compiled == {}
    assert all(callable(function) for function in greedy.LOOPS)
