"""gt.function: results equal those of the undecorated function, and Python runs once."""

import warnings

import numpy as np
import pytest

import gradtape as gt


def counted(f):
    """The function, and a list that grows whenever Python runs it."""
    runs = []

    def wrapped(*args, **kwargs):
        runs.append(1)
        return f(*args, **kwargs)

    return wrapped, runs


def test_floats_are_inputs():
    f, runs = counted(lambda x, rate: x - rate * gt.sin(x))
    compiled = gt.function(f)
    for x, rate in [(1.0, 0.1), (2.0, 0.2), (-3.0, 0.0)]:
        assert float(compiled(gt.asarray(x), rate)) == pytest.approx(x - rate * np.sin(x))
    assert len(runs) == 1


def test_arithmetic_on_float_arguments_is_done_anew():
    f, runs = counted(lambda x, rate: x * (2.0 * rate**2 + 1.0 / (rate + 1.0)))
    compiled = gt.function(f)
    for rate in (0.5, 1.0, 3.0):
        expected = 2.0 * (2.0 * rate**2 + 1.0 / (rate + 1.0))
        assert float(compiled(gt.asarray(2.0), rate)) == pytest.approx(expected)
    assert len(runs) == 1


def test_a_float_that_decides_is_guarded():
    f, runs = counted(lambda x, p: x * 2.0 if p > 0.5 else x * 3.0)
    compiled = gt.function(f)
    for p in (0.1, 0.9, 0.1, 0.9):
        assert float(compiled(gt.asarray(1.0), p)) == (2.0 if p > 0.5 else 3.0)
    assert len(runs) == 2


def test_floats_keep_the_dtype_of_tensors():
    compiled = gt.function(lambda x, rate: x * rate)
    for rate in (0.5, 0.25):
        assert compiled(gt.asarray([1.0], dtype=gt.float32), rate).dtype == np.float32


def test_ints_become_inputs_after_a_few_values():
    f, runs = counted(lambda x, n: x * n)
    compiled = gt.function(f)
    for n in range(10):
        assert float(compiled(gt.asarray(2.0), n)) == 2.0 * n
    assert len(runs) <= 5


def test_ints_may_count_a_python_loop():
    def power(x, n):
        for _ in range(n):
            x = x * 2.0
        return x

    compiled = gt.function(power)
    for n in (3, 1, 4, 1, 5, 9, 2, 6, 3, 9):
        assert float(compiled(gt.asarray(1.0), n)) == 2.0**n


def test_strings_bools_and_none_are_static():
    f, runs = counted(lambda x, how, flag=None: x + 1.0 if how == "up" and flag else x - 1.0)
    compiled = gt.function(f)
    for _ in range(2):
        assert float(compiled(gt.asarray(1.0), "up", flag=True)) == 2.0
        assert float(compiled(gt.asarray(1.0), "up", flag=False)) == 0.0
        assert float(compiled(gt.asarray(1.0), "down")) == 0.0
    assert len(runs) == 3


def test_nests_in_and_out():
    compiled = gt.function(lambda p: {"sum": p["a"] + p["b"][0], "pair": (p["a"], 3)})
    for a in (1.0, 2.0):
        found = compiled({"a": gt.asarray(a), "b": [gt.asarray(10.0)]})
        assert float(found["sum"]) == a + 10.0
        assert float(found["pair"][0]) == a
        assert found["pair"][1] == 3


def test_numpy_arguments_and_new_shapes():
    f, runs = counted(lambda x: gt.sum(x * x))
    compiled = gt.function(f)
    for n in (2, 3, 2, 3):
        assert float(compiled(np.ones(n))) == n
    assert len(runs) == 2


def test_variables_are_captured_by_reference():
    v = gt.Variable(2.0)
    f, runs = counted(lambda x: v * x)
    compiled = gt.function(f)
    assert float(compiled(gt.asarray(3.0))) == 6.0
    v.assign(5.0)
    assert float(compiled(gt.asarray(3.0))) == 15.0
    assert len(runs) == 1


def test_the_same_tensor_twice_is_two_arguments():
    compiled = gt.function(lambda a, b: a - 2.0 * b)
    x = gt.asarray(1.0)
    assert float(compiled(x, x)) == -1.0
    assert float(compiled(x, gt.asarray(3.0))) == -5.0


def test_training_step_equals_the_undecorated_one():
    def make():
        w, b = gt.Variable([[1.0], [2.0]]), gt.Variable([0.5])
        m = gt.Variable([[0.0], [0.0]], trainable=False)

        def step(x, y, rate):
            with gt.GradientTape() as tape:
                loss = gt.mean((x @ w + b - y) ** 2)
            gw, gb = tape.gradient(loss, [w, b])
            m.assign(0.9 * m + gw)
            w.assign_sub(rate * m)
            b.assign_sub(rate * gb)
            return loss

        return step, (w, b, m)

    plain, plain_state = make()
    compiled, state = make()
    f, runs = counted(compiled)
    compiled = gt.function(f)
    rng = np.random.default_rng(0)
    for number in range(6):
        x, y = rng.standard_normal((4, 2)), rng.standard_normal((4, 1))
        rate = 0.1 / (number + 1)
        np.testing.assert_allclose(
            float(compiled(gt.asarray(x), gt.asarray(y), rate)),
            float(plain(gt.asarray(x), gt.asarray(y), rate)),
            rtol=1e-12,
        )
    for a, b in zip(state, plain_state, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)
    assert len(runs) == 1


def test_steady_training_allocates_and_compiles_nothing():
    w = gt.Variable(np.ones((8, 4)))

    @gt.function
    def step(x):
        with gt.GradientTape() as tape:
            loss = gt.sum(gt.tanh(x @ w) ** 2)
        w.assign_sub(0.01 * tape.gradient(loss, w))
        return loss

    x = gt.asarray(np.ones((16, 8)))
    for _ in range(5):
        step(x)
    before = gt.counters()
    for _ in range(10):
        step(x)
    after = gt.counters()
    assert after.plans_run - before.plans_run == 10
    assert after.kernels_compiled == before.kernels_compiled
    assert after.bytes_allocated == before.bytes_allocated


def test_newton_until_convergence():
    def newton(x):
        while gt.abs(x * x - 2.0) > 1e-12:
            x = x - (x * x - 2.0) / (2.0 * x)
        return x

    f, runs = counted(newton)
    compiled = gt.function(f)
    starts = [1.0, 2.0, 10.0, 1.0, 2.0, 10.0, 1.1, 9.0]
    for start in starts:
        assert float(compiled(gt.asarray(start))) == pytest.approx(2.0**0.5)
    assert len(runs) < len(starts)


def test_bisection_branches_on_values():
    def bisect(low, high):
        while (high - low) > 1e-6:
            middle = 0.5 * (low + high)
            if middle * middle * middle > 5.0:
                high = middle
            else:
                low = middle
        return 0.5 * (low + high)

    compiled = gt.function(bisect)
    for low, high in [(0.0, 4.0), (1.0, 2.0), (0.0, 4.0), (1.0, 3.0)]:
        found = float(compiled(gt.asarray(low), gt.asarray(high)))
        assert found == pytest.approx(5.0 ** (1 / 3), abs=1e-6)


def test_guard_miss_after_assignment_and_draw_equals_the_undecorated_run():
    def make():
        v, generator = gt.Variable(0.0), gt.random.Generator(5)

        def f(x):
            noise = generator.normal(())
            v.assign_add(x)
            if v.value > 2.5:
                v.assign(0.0)
                return noise + generator.normal(())
            return noise

        return f, v

    plain, plain_v = make()
    compiled, v = make()
    compiled = gt.function(compiled)
    for _ in range(12):
        assert float(compiled(gt.asarray(1.0))) == float(plain(gt.asarray(1.0)))
        assert float(v.value) == float(plain_v.value)


def test_random_generators_move_on():
    a, b = gt.random.Generator(1), gt.random.Generator(1)
    compiled = gt.function(lambda x: x + a.uniform((3,)))
    for _ in range(4):
        assert compiled(gt.asarray(1.0)).tolist() == (1.0 + b.uniform((3,))).tolist()


def test_what_cannot_be_followed_runs_in_python_with_one_warning():
    f, runs = counted(lambda x: x * float(x))
    compiled = gt.function(f)
    with pytest.warns(UserWarning, match="leaves for Python at .*test_function.py"):
        assert float(compiled(gt.asarray(2.0))) == 4.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert float(compiled(gt.asarray(3.0))) == 9.0
    assert len(runs) == 2
    assert "runs in Python" in compiled.explain()


def test_too_many_paths_run_in_python():
    compiled = gt.function(lambda x: x * 2.0 if int(x) % 2 else x * 3.0)
    with pytest.warns(UserWarning, match="more than 64 paths"):
        found = [float(compiled(gt.asarray(float(n)))) for n in range(80)]
    assert found == [2.0 * n if n % 2 else 3.0 * n for n in range(80)]


def test_gradients_pass_through_under_a_tape():
    compiled = gt.function(lambda x: gt.sin(x) * x)
    x = gt.Variable(1.5)
    for _ in range(2):
        with gt.GradientTape() as tape:
            y = compiled(x)
        assert float(tape.gradient(y, x)) == pytest.approx(np.cos(1.5) * 1.5 + np.sin(1.5))
    assert float(gt.grad(compiled)(1.5)) == pytest.approx(np.cos(1.5) * 1.5 + np.sin(1.5))


def test_functions_call_functions():
    inner = gt.function(lambda x: x * x)
    outer = gt.function(lambda x: inner(x) + inner(2.0 * x))
    for x in (1.0, 2.0):
        assert float(outer(gt.asarray(x))) == 5.0 * x * x


def test_methods():
    class Model:
        def __init__(self, factor):
            self.w = gt.Variable(factor)

        @gt.function
        def predict(self, x, *, scale=1.0):
            return self.w * x * scale

    a, b = Model(2.0), Model(3.0)
    for x in (1.0, 4.0):
        assert float(a.predict(gt.asarray(x))) == 2.0 * x
        assert float(b.predict(gt.asarray(x), scale=10.0)) == 30.0 * x


def test_errors_are_the_functions_own_and_lose_nothing():
    v = gt.Variable(1.0)

    @gt.function
    def f(x):
        v.assign_add(1.0)
        return gt.add(x, gt.asarray([1.0, 2.0]))

    with pytest.raises(gt.errors.ShapeError, match="do not broadcast"):
        f(gt.asarray([1.0, 2.0, 3.0]))
    assert float(v.value) == 2.0
    assert f(gt.asarray([1.0, 2.0])).tolist() == [2.0, 4.0]
    assert float(v.value) == 3.0


def test_singular_matrix_is_an_error_at_the_call():
    compiled = gt.function(lambda a: gt.linalg.inv(a))
    assert compiled(gt.asarray(np.eye(2))).tolist() == np.eye(2).tolist()
    with pytest.raises(np.linalg.LinAlgError):
        compiled(gt.asarray(np.zeros((2, 2))))


def test_static_argnames_and_unknown_ones():
    f, runs = counted(lambda x, n: x * n)

    def named(x, n):
        return f(x, n)

    compiled = gt.function(named, static_argnames="n")
    for n in (1.0, 2.0, 1.0):
        assert float(compiled(gt.asarray(2.0), n)) == 2.0 * n
    assert len(runs) == 2
    with pytest.raises(ValueError, match="static_argnames"):
        gt.function(named, static_argnames=("m",))


def test_many_captures_are_told_plainly():
    compiled = gt.function(lambda x: x + 1.0)
    with pytest.warns(UserWarning, match=r"captured 6 times.*x was .* and is"):
        found = [float(compiled(gt.asarray(np.ones(n)))[0]) for n in range(1, 8)]
    assert found == [2.0] * 7


def test_explain_and_program():
    compiled = gt.function(lambda x: x * 2.0 if x > 0.0 else x)
    compiled(gt.asarray(1.0))
    assert "looks at a value at" in compiled.explain()
    assert "sin" in str(gt.function(lambda x: gt.sin(x)).program(gt.asarray(1.0)))
