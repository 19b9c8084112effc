"""gt.function: tensors and containers with two names, numbers as text, collections of garbage."""

import gc
import warnings

import pytest
from tests.jit.agreement import assert_same

import gradtape as gt

A = gt.asarray


def slope(x, y):
    with gt.GradientTape() as tape:
        tape.watch(x)
        z = gt.sum(x * y)
    return tape.gradient(z, x)


@pytest.mark.parametrize("first", ["same", "other"])
def test_one_tensor_as_two_arguments(first):
    f, a, b = gt.function(slope), A([3.0, 4.0]), A([1.0, 2.0])
    pairs = [(a, a), (a, b)] if first == "same" else [(a, b), (a, a)]
    for x, y in pairs * 3:
        assert_same(f(x, y), slope(x, y))


def test_one_tensor_by_name_and_in_a_nest():
    a, b = A([3.0, 4.0]), A([1.0, 2.0])

    def plain(nest, x, *, y):
        return slope(x, nest["a"][0]) + slope(y, x)

    f = gt.function(plain)
    for nest, x, y in [(a, a, a), (a, b, a), (b, a, a), (a, a, b), (a, a, a)]:
        assert_same(f({"a": [nest]}, x, y=y), plain({"a": [nest]}, x, y=y))


def test_results_that_are_one_object():
    held = A(5.0)

    def f(x, y):
        z = x * 2.0
        return z, z, x, y, held, [z, z]

    g, a, b = gt.function(f), A(1.0), A(2.0)
    for x, y in [(a, b), (a, a), (b, a), (a, b)]:
        for _ in range(2):
            want, got = f(x, y), g(x, y)
            for i in range(5):
                for j in range(5):
                    assert (got[i] is got[j]) == (want[i] is want[j]), (i, j)
            assert [id(each) for each in got[2:5]] == [id(x), id(y), id(held)]
            assert got[5][0] is got[5][1] is got[0]


def test_one_list_returned_twice():
    def f(x):
        found = [x * 2.0]
        return found, found, {"a": found}

    g = gt.function(f)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "gt.function: ")
        for _ in range(4):
            one, other, third = g(A(1.0))
            assert one is other is third["a"]


def test_a_list_of_the_caller_is_returned_itself():
    g = gt.function(lambda held, x: (held, x * 2.0))
    held = [A(1.0)]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "gt.function: ")
        for _ in range(4):
            assert g(held, A(1.0))[0] is held


def test_functions_that_call_themselves_are_captured_without_full_collections():
    """A recursive inner function is a reference cycle; only the youngest objects are searched."""

    @gt.function
    def f(x):
        t = x * 0.5

        def inner(z, count):
            return z if count == 0 else inner(gt.tanh(z + t), count - 1)

        return inner(x, 2) * int(x)

    full = []

    def note(phase, info):
        if phase == "start" and info["generation"] == 2:
            full.append(1)

    gc.collect()
    gc.callbacks.append(note)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "gt.function: ")
            for number in range(30):
                f(A(float(number)))
    finally:
        gc.callbacks.remove(note)
    assert len(full) <= 3


def test_numbers_as_text_and_by_type():
    def plain(x, s):
        return x * float(f"{s:.2f}") + len(repr(s)) + len(str(s)) * (type(s) is float)

    f = gt.function(plain)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "gt.function: ")
        for s in (0.5, 0.25, 1 / 3, 2, True, 0.5):
            assert_same(f(A(1.0), s), plain(A(1.0), s))
