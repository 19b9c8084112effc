"""gt.function: what was captured and why, told by warnings and by explain()."""

import warnings

import numpy as np
import pytest

import gradtape as gt

A = gt.asarray


def warned(f, calls):
    with pytest.warns(UserWarning, match="has been captured") as caught:
        _ = [f(*call) for call in calls]
    (found,) = caught
    return found


def test_shapes():
    @gt.function
    def step(x):
        return x + 1.0

    warning = warned(step, [(A(np.ones(n)),) for n in range(1, 8)])
    message = str(warning.message)
    assert message.startswith("gt.function: step has been captured 6 times; the last time because ")
    assert "x was float64[5] and is float64[6]" in message
    assert message.count(" ms") == 1
    assert message.split("Each took time: ")[1].split(" ms")[0].count(".") == 5
    assert "padding" in message
    assert warning.filename == __file__


def test_dtypes_nests_strings_and_objects():
    def f(batch, how="a", model=None):
        return batch["x"] * 2.0

    cases = {
        "batch['x'] was float64[1] and is int64[1]": [
            ({"x": A(np.ones(1, dtype))},)
            for dtype in ("float32", "complex64", "complex128", "uint8", "float64", "int64")
        ],
        "how was 'e' and is 'f'": [({"x": A(1.0)}, how) for how in "abcdef"],
        "batch['e'] was absent and is float64[]": [
            ({"x": A(1.0), **{name: A(1.0) for name in "abcde"[:n]}},) for n in range(6)
        ],
    }
    for expected, calls in cases.items():
        message = str(warned(gt.function(f), calls).message)
        assert expected in message
    message = str(
        warned(gt.function(f), [({"x": A(1.0)}, "a", object()) for _ in range(6)]).message
    )
    assert "model was an object that is gone" in message or "model was object at" in message


def test_one_warning_and_no_more():
    f = gt.function(lambda x: x + 1.0)
    warned(f, [(A(np.ones(n)),) for n in range(1, 8)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(8, 30):
            f(A(np.ones(n)))


def test_few_kinds_are_no_reason():
    f = gt.function(lambda x: x + 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (1, 2, 3, 4, 5, 1, 2, 3, 4, 5):
            f(A(np.ones(n)))


def test_compared_with_the_call_that_is_most_like_it():
    @gt.function
    def f(a, b, c):
        return a

    x, y = A(1.0), A([1.0])
    f(x, x, "one")
    f(y, y, "two")
    f(x, x, "three")
    assert "c was 'one' and is 'three'" in f.explain()


def test_a_new_batch_size_compiles_no_kernel():
    f = gt.function(lambda x: gt.tanh(x) * 2.0 + gt.exp(-x))
    for n in (1000, 1001):
        for _ in range(3):
            f(A(np.ones(n)))
    before = gt.counters().kernels_compiled
    for n in (1002, 1003):
        for _ in range(3):
            f(A(np.ones(n)))
    assert gt.counters().kernels_compiled == before


class TestExplain:
    def test_everything_there_is_to_say(self):
        v, generator = gt.Variable(1.0, name="weight"), gt.random.Generator(0)

        @gt.function
        def step(x, how="plain"):
            if x > 0.0:
                v.assign_add(x)
            return v * 2.0 + generator.normal(())

        for value in (1.0, -1.0, 2.0, -2.0):
            step(A(value))
        step(A(1.0), "other")
        lines = step.explain().splitlines()
        assert lines[0] == "step: 2 kinds of calls"
        assert lines[1].startswith("1. first call: 4 calls, 2 paths, ")
        assert lines[1].endswith(" ms to capture")
        assert "   reads weight" in lines
        assert "   assigns weight, at its end" in lines
        assert "   draws random numbers" in lines
        assert any("reads a value at" in line and __file__ in line for line in lines)
        assert any("how was 'plain' and is 'other': 1 call, 1 path," in line for line in lines)
        assert any(line.startswith("   compares ") and "outside" in line for line in lines)

    def test_before_any_call(self):
        f = gt.function(lambda x: x)
        assert f.explain().splitlines()[0] == "<lambda>: 0 kinds of calls"

    def test_values_that_guards_met(self):
        f = gt.function(lambda x, r: x * 2.0 if r > 0.5 else x)
        f(A(1.0), 0.1), f(A(1.0), 0.2), f(A(1.0), 0.9)
        assert "r was False, True" in f.explain()

    def test_captures(self):
        f = gt.function(lambda x: x)
        f(A(1.0)), f(A([1.0])), f(A(2.0))
        assert f.captures == 2
