"""gt.print prints in every call, replayed or not."""

import pytest
from tests.jit.agreement import counted

import gradtape as gt

A = gt.asarray


def test_every_call_prints(capsys):
    def f(x, rate):
        gt.print("x", x, "rate", rate, {"a": 1}, sep="|")
        return x * rate

    f, runs = counted(f)
    decorated = gt.function(f, recheck=False)
    for n in range(6):
        assert float(decorated(A(float(n)), 0.5 * n)) == 0.5 * n * n
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"x|{float(n)}|rate|{0.5 * n}|{{'a': 1}}" for n in range(6)]
    assert len(runs) == 2


def test_eager_and_under_a_tape(capsys):
    x = A([1.0, 2.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        gt.print("in", x, end="!\n")
        y = gt.sum(x * x)
    assert tape.gradient(y, x).tolist() == [2.0, 4.0]
    gt.print()
    gt.print("list", [1, "a"], True)
    assert capsys.readouterr().out == "in [1. 2.]!\n\nlist [1, 'a'] True\n"


def test_a_branch_prints_when_it_is_taken(capsys):
    @gt.function
    def f(x):
        if x > 1.0:
            gt.print("large", x)
        return x

    for value in (2.0, 0.5, 3.0, 0.5, 4.0, 5.0, 0.25):
        f(A(value))
    assert capsys.readouterr().out.split("\n") == [f"large {n}.0" for n in (2, 3, 4, 5)] + [""]


def test_bodies_of_loops_have_no_effects():
    def body(c, t):
        gt.print(c)
        return c + t, t

    with pytest.raises(ValueError, match=r"^print: .*print it outside"):
        gt.scan(body, A(0.0), A([1.0, 2.0]))
