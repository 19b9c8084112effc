"""gt.function: Python's own control flow on values, as a tree of compiled steps."""

import warnings

import numpy as np
import pytest
from tests.jit.agreement import Runs, agrees, counted, stateless, tensors

import gradtape as gt

A = gt.asarray


def test_if_elif_else():
    def f(x):
        if x > 0 and x < 1:
            return x * 2.0
        elif x >= 1 or x < -5:
            return x * 3.0
        return -x

    values = [0.5, 2.0, -7.0, -1.0, 0.3, 4.0, -8.0, -2.0]
    assert agrees(stateless(f), tensors(*values)).runs == 8


def test_conditional_expressions_not_and_truth():
    values = [0.0, 1.0, -1.0, 0.0, 5.0]
    assert agrees(stateless(lambda x: x + 1.0 if not x else x * 2.0), tensors(*values)).runs == 4


def test_while():
    def f(x):
        while gt.norm(x) > 1.0:
            x = x * 0.5
        return x

    calls = [(A([a, a]),) for a in (3.0, 0.1, 30.0, 2.0, 3.0, 0.1, 30.0, 2.0)]
    assert agrees(stateless(f), calls).runs == 8


def test_while_with_break_continue_and_else():
    def f(x):
        total, n = x * 0.0, 0
        while n < 10:
            n += 1
            if n % 2:
                continue
            if total > 20.0:
                break
            total = total + x * n
        else:
            total = -total
        return total

    agrees(stateless(f), tensors(0.1, 1.0, 2.0, 5.0, 1.0, 0.1, 3.0))


def test_for_over_a_range_of_a_tensor():
    def f(x, n):
        for i in range(int(n)):
            x = x + i * x
        return x

    calls = [(A(1.5), A(n)) for n in (3, 1, 3, 2, 0, 1, 3, 2)]
    assert agrees(stateless(f), calls).runs == 8


def test_a_0d_integer_tensor_is_an_index():
    calls = [(A(np.arange(4.0)), A(n)) for n in (0, 2, 3, 0, 2, 1)]
    assert agrees(stateless(lambda x, n: [x, x * 2.0, x * 3.0, -x][n]), calls).runs == 8
    assert agrees(stateless(lambda x, n: sum([x] * 1, x) * len(range(n))), calls).runs == 8


def test_for_over_rows():
    def f(x):
        best = x[0]
        for row in x[1:]:
            if gt.sum(row) > gt.sum(best):
                best = row
        return best

    rng = np.random.default_rng(0)
    calls = [(A(rng.standard_normal((4, 2))),) for _ in range(20)]
    assert agrees(stateless(f), calls).runs <= 16


def test_assert():
    # As text: pytest rewrites assertions to much code of its own, which would be read, too.
    scope = {"gt": gt, "__name__": __name__}
    exec("def f(x):\n    assert gt.all(x > 0.0), 'not positive'\n    return gt.log(x)", scope)
    f = scope["f"]
    calls = [(A([a, 1.0]),) for a in (1.0, 2.0, -1.0, 3.0, -2.0, 4.0)]
    found = agrees(stateless(f), calls)
    # Two runs record the path, and every failure is a run that fails on the user's line.
    assert found.runs == 2 + 2 * 3
    with pytest.raises(AssertionError, match="not positive"):
        found.function(A([-1.0, 1.0]))


def test_raise_and_try():
    def f(x):
        try:
            if x < 0:
                raise ValueError("negative")
            return gt.sqrt(x)
        except ValueError:
            return x * 0.0

    assert agrees(stateless(f), tensors(1.0, -1.0, 4.0, -4.0)).runs == 4


def test_what_failed_before_is_not_in_the_way():
    runs = Runs()
    note, count = runs.note, runs.count

    def f(x):
        note()
        y = x * 2.0
        if y > 3.0:
            if count() == 2:
                raise RuntimeError("once")
            return y + 1.0
        return y

    compiled = gt.function(f)
    assert float(compiled(A(1.0))) == 2.0
    with pytest.raises(RuntimeError, match="once"):
        compiled(A(2.0))
    for _ in range(3):
        assert float(compiled(A(2.0))) == 5.0
        assert float(compiled(A(1.0))) == 2.0
    # Two of each path, and the one that failed.
    assert len(runs) == 5


def test_builtins_that_compare():
    pairs = [(1.0, 2.0), (3.0, 2.0), (5.0, 4.0), (0.0, 4.0)]
    calls = [(A(a), A(b)) for a, b in pairs]
    assert agrees(stateless(lambda a, b: (max(a, b), min(a, b))), calls).runs == 4
    lists = [(A(values),) for values in ([3.0, 1.0, 2.0], [1.0, 2.0, 3.0], [9.0, 4.0, 5.0])]
    assert agrees(stateless(lambda x: sorted(x)), lists).runs == 4
    assert agrees(stateless(lambda x: x * 2.0 if 3.0 in x else x), lists).runs == 4
    assert agrees(stateless(lambda x: any(n > 4.0 for n in x) and all(n > 0.0 for n in x)), lists)


def test_argmax_as_an_index():
    calls = [(A(values),) for values in ([3.0, 1.0, 2.0], [1.0, 2.0, 0.0], [9.0, 4.0, 5.0])]
    assert agrees(stateless(lambda x: x[int(gt.argmax(x))] * 2.0), calls).runs == 4


def test_matching():
    def f(x, n):
        match int(n):
            case 0:
                return x
            case 1 | 2:
                return x * 2.0
            case _:
                return -x

    calls = [(A(1.0), A(n)) for n in (0, 1, 2, 3, 0, 1, 2, 3)]
    assert agrees(stateless(f), calls).runs == 8


def test_recursion():
    def factorial(x):
        return x * factorial(x - 1.0) if x > 1.0 else x

    calls = tensors(5.0, 3.0, 5.0, 3.0, 1.0, 1.0)
    assert agrees(stateless(factorial), calls).runs == 6


def test_lists_that_grow():
    def f(x):
        kept = []
        while gt.sum(x) > 1.0:
            kept.append(x)
            x = x / 2.0
        return gt.stack([*kept, x])

    calls = [(A([a, a]),) for a in (4.0, 1.0, 4.0, 1.0)]
    assert agrees(stateless(f), calls).runs == 4


def test_bisection():
    def bisect(low, high):
        while high - low > 1e-6:
            middle = 0.5 * (low + high)
            if middle * middle * middle > 5.0:
                high = middle
            else:
                low = middle
        return 0.5 * (low + high)

    calls = [(A(a), A(b)) for a, b in [(0.0, 4.0), (1.0, 2.0), (0.0, 4.0), (1.0, 3.0)]]
    found = agrees(stateless(bisect), calls)
    assert float(found.results[0]) == pytest.approx(5.0 ** (1 / 3), abs=1e-6)


def newton(x):
    steps = 0
    while gt.abs(x * x - 2.0) > 1e-12:
        x = x - (x * x - 2.0) / (2.0 * x)
        steps += 1
    return x, steps


class TestConvergence:
    """A loop until convergence compiles one body, however long it is."""

    def test_newton(self):
        starts = [1.0, 2.0, 1e3, 1e6, 1e9, 1.0, 1e3, 1e9]
        assert agrees(stateless(newton), tensors(*starts)).runs == 8

    def test_one_segment_is_compiled(self):
        f = gt.function(newton)
        f(A(1.0)), f(A(1.5))
        gt.wait_for_compiler()
        before = gt.counters()
        found = [f(A(start))[1] for start in (1e3, 1e6, 1e9, 1e12)]
        after = gt.counters()
        assert found[0] < found[1] < found[2] < found[3]
        assert after.plans_built == before.plans_built
        assert after.kernels_compiled == before.kernels_compiled

    def test_a_replay_runs_one_plan_for_each_step(self):
        f = gt.function(newton)
        _, steps = f(A(1e6)), f(A(1e6))[1]
        before = gt.counters()
        assert f(A(1e6))[1] == steps
        after = gt.counters()
        assert after.plans_run - before.plans_run == steps + 1
        assert after.plan_hits == before.plan_hits  # nothing was looked up, either

    def test_a_longer_run_is_captured_from_its_beginning(self):
        """What the replay computed before it led nowhere is computed once more, and no more."""
        f = gt.function(newton)
        f(A(1.0)), f(A(1.0))
        before = gt.counters()
        _, steps = f(A(1e6))
        after = gt.counters()
        assert steps < after.plans_run - before.plans_run <= 2 * (steps + 1)

    def test_fixed_point_of_a_variable(self):
        def make():
            v = gt.Variable(np.ones(3))

            def f(x):
                while True:
                    new = gt.cos(v.value) * 0.5 + x
                    done = gt.max(gt.abs(new - v)) < 1e-9
                    v.assign(new)
                    if done:
                        return v * 2.0

            return f, [v]

        found = agrees(make, tensors(0.1, 0.2, 0.3, 0.1, 0.2, 0.3))
        assert found.runs <= 6


class TestMisses:
    def test_after_an_assignment_and_a_draw(self):
        """A value not seen before comes after state has changed: the call equals a plain one."""

        def make():
            v, generator = gt.Variable(0.0), gt.random.Generator(5)

            def f(x):
                noise = generator.normal(())
                v.assign_add(x)
                if v.value > 2.5:
                    v.assign(0.0)
                    return noise + generator.normal(())
                return noise

            return f, [v, generator]

        assert agrees(make, tensors(*[1.0] * 12)).runs == 4

    def test_at_every_depth(self):
        def make():
            v, generator = gt.Variable([0.0, 0.0]), gt.random.Generator(1)

            def f(x):
                for _ in range(4):
                    v[0] = v[0] + generator.uniform(())
                    if v[0] > x:
                        v.assign(v * 0.5 + generator.uniform((2,)))
                    if gt.sum(v) > 3.0:
                        v[1] = -v[1]
                return gt.sum(v) + generator.normal(())

            return f, [v, generator]

        agrees(make, tensors(*[0.3, 0.9, 1.5] * 8))

    def test_callbacks_before_a_miss_run_once(self):
        seen = []

        def look(x):
            seen.append(float(x))
            return x

        def f(x):
            y = gt.numpy_function(look, [x], ((), gt.float64))
            return y * 2.0 if y > 0.0 else y

        compiled = gt.function(f)
        for value in (1.0, -1.0, 2.0, -2.0):
            compiled(A(value))
        assert seen == [1.0, -1.0, 2.0, -2.0]


class TestWhatCannotBeFollowed:
    @pytest.mark.parametrize(
        "f",
        [
            lambda x: x * float(x),
            lambda x: x * x.item(),
            lambda x: x * x.numpy(),
            lambda x: x * np.asarray(x),
            lambda x: gt.asarray([x.tolist()]),
            lambda x: x * complex(x).real,
            lambda x: np.float64(x) * 2.0,
        ],
    )
    def test_one_warning_names_the_line(self, f):
        inner, runs = counted(f)
        compiled = gt.function(inner)
        line = f"{__file__}:{f.__code__.co_firstlineno}"
        with pytest.warns(UserWarning, match="runs in Python") as caught:
            found = compiled(A(2.0))
        assert line in str(caught[0].message)
        assert caught[0].filename == __file__
        np.testing.assert_allclose(np.asarray(found), np.asarray(f(A(2.0))))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_allclose(np.asarray(compiled(A(3.0))), np.asarray(f(A(3.0))))
        assert len(runs) == 2
        assert "runs in Python" in compiled.explain()
        assert line in compiled.explain()

    def test_variables_that_are_read_out(self):
        v = gt.Variable(2.0)
        compiled = gt.function(lambda x: x * float(v))
        with pytest.warns(UserWarning, match="leaves for Python"):
            assert float(compiled(A(1.0))) == 2.0
        v.assign(3.0)
        assert float(compiled(A(1.0))) == 3.0

    def test_boolean_masks(self):
        f = gt.function(lambda x: gt.sum(x[x > 0.0]))
        with pytest.warns(UserWarning, match="runs in Python"):
            assert float(f(A([1.0, -1.0, 2.0]))) == 3.0
        assert float(f(A([1.0, 4.0, 2.0]))) == 7.0

    def test_other_kinds_of_calls_stay_compiled(self):
        f, runs = counted(lambda x, flag: x * float(x) if flag else x * 2.0)
        compiled = gt.function(f)
        with pytest.warns(UserWarning, match="runs in Python"):
            compiled(A(2.0), True)
        for _ in range(3):
            assert float(compiled(A(2.0), False)) == 4.0
        assert len(runs) == 3

    def test_too_many_paths(self):
        compiled = gt.function(lambda x: x * 2.0 if int(x) % 2 else x * 3.0)
        with pytest.warns(UserWarning, match="more than 64 paths"):
            found = [float(compiled(A(float(n)))) for n in range(80)]
        assert found == [2.0 * n if n % 2 else 3.0 * n for n in range(80)]

    def test_functions_that_do_something_else_each_time_are_right_where_they_look(self):
        rounds = []

        def f(x):
            rounds.append(1)
            if len(rounds) % 2:
                return x if x > 1.0 else -x
            return x * 2.0 if x > 2.0 else x * 3.0

        compiled = gt.function(f)
        assert float(compiled(A(0.0))) == 0.0
        assert float(compiled(A(5.0))) == 10.0
        assert float(compiled(A(5.0))) in (5.0, 10.0)


class TestEffects:
    def test_printing_happens_while_capturing_and_costs_nothing_later(self, capsys):
        f, runs = counted(lambda x: print("x is", x, f"{x:.1f}", repr(x), str(x)) or x * 2.0)
        compiled = gt.function(f, frozen=True)
        for value in (1.0, 2.0, 3.0):
            assert float(compiled(A(value))) == 2.0 * value
        assert len(runs) == 1
        assert capsys.readouterr().out.count("x is") == 1
        assert "effects happen, at captures only" in compiled.explain()

    def test_appending_to_a_list(self):
        def make(**options):
            seen = []

            @gt.function(**options)
            def f(x):
                seen.append(1)
                return x + 1.0

            return f, seen

        frozen, seen = make(frozen=True)
        for value in (1.0, 2.0):
            frozen(A(value))
        assert seen == [1]
        f, seen = make()
        with pytest.warns(UserWarning, match=r"it changes seen, .*guards.py:\d+ .*frozen=True"):
            _ = [f(A(float(value))) for value in range(6)]
        assert seen == [1] * 6


def test_the_value_of_a_variable_decides():
    flag = gt.Variable(True)
    f = gt.function(lambda x: x * 2.0 if bool(flag.value) else x)
    for up in (True, False, True, False):
        flag.assign(up)
        assert float(f(gt.asarray(1.0))) == (2.0 if up else 1.0)
