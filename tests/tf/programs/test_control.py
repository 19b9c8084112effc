"""Control flow, functions, custom gradients and callbacks."""

import warnings

import numpy as np
import pytest

import gradtape as gt
import gradtape.tf as tf


def slope(f, x):
    x = tf.convert_to_tensor(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x).numpy()


class TestBranches:
    def test_cond(self):
        def f(x):
            return tf.cond(x > 1.0, lambda: x * x, lambda: x + 1.0)

        assert f(tf.constant(3.0)).numpy() == 9.0
        assert (slope(f, 3.0), slope(f, 0.5)) == (6.0, 1.0)
        assert tf.cond(True, lambda: 1, lambda: 2) == 1
        with pytest.raises(TypeError, match="callable"):
            tf.cond(True, 1, 2)
        with pytest.raises(ValueError, match="one truth value"):
            tf.cond(tf.constant([True, False]), lambda: 1, lambda: 2)

    def test_only_the_chosen_branch_is_called(self):
        called = []
        tf.cond(tf.constant(False), lambda: called.append(1), lambda: called.append(2))
        assert called == [2]

    def test_case(self):
        def f(x):
            pairs = [(x < 0.0, lambda: -x), (x < 10.0, lambda: x * 2.0)]
            return tf.case(pairs, default=lambda: x * 0.0)

        assert [f(tf.constant(v)).numpy() for v in (-1.0, 3.0, 20.0)] == [1.0, 6.0, 0.0]
        with pytest.raises(ValueError, match="none of the predicates"):
            tf.case([(tf.constant(False), lambda: 1)])
        with pytest.raises(ValueError, match="exclusive"):
            tf.case([(True, lambda: 1), (True, lambda: 2)], exclusive=True)

    def test_switch_case(self):
        functions = {0: lambda: "zero", 2: lambda: "two"}
        assert tf.switch_case(tf.constant(2), functions) == "two"
        assert tf.switch_case(tf.constant(1), functions) == "two"
        assert tf.switch_case(tf.constant(1), functions, default=lambda: "other") == "other"
        assert tf.switch_case(0, [lambda: "first", lambda: "second"]) == "first"


class TestLoops:
    def test_while_loop(self):
        i, x = tf.while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x * 2.0), (0, 1.5))
        assert (i.numpy(), x.numpy()) == (4, 24.0)
        assert i.dtype == tf.int32
        (found,) = tf.while_loop(lambda x: x < 100.0, lambda x: [x * 3.0], [1.0])
        assert found.numpy() == 243.0
        i, _ = tf.while_loop(lambda i, x: True, lambda i, x: (i + 1, x), (0, 0.0),
                             maximum_iterations=3)  # fmt: skip
        assert i.numpy() == 3

    def test_while_loop_whose_shapes_grow(self):
        _, x = tf.while_loop(
            lambda i, x: i < 3, lambda i, x: (i + 1, tf.concat([x, x], 0)), (0, tf.ones([1])),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])),
        )  # fmt: skip
        assert x.shape == [8]

    def test_derivative_of_a_loop(self):
        def f(x):
            return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), (0, 1.0))[1]

        assert slope(f, 2.0) == 12.0

    def test_map_fn(self):
        x = np.float32([[1, 2], [3, 4]])
        np.testing.assert_array_equal(tf.map_fn(lambda row: row * row, x), x * x)
        total, doubled = tf.map_fn(
            lambda row: (tf.reduce_sum(row), row * 2),
            x,
            fn_output_signature=(tf.float32, tf.float32),
        )
        np.testing.assert_array_equal(total, x.sum(1))
        np.testing.assert_array_equal(doubled, 2 * x)
        pairs = tf.map_fn(lambda p: p[0] + p["b" if isinstance(p, dict) else 1], (x, x))
        np.testing.assert_array_equal(pairs, 2 * x)
        np.testing.assert_array_equal(
            slope(lambda x: tf.reduce_sum(tf.map_fn(lambda r: r**2, x)), x), 2 * x
        )

    def test_scan(self):
        x = tf.constant([1.0, 2.0, 3.0])
        assert tf.scan(lambda a, b: a + b, x).numpy().tolist() == [1.0, 3.0, 6.0]
        assert tf.scan(lambda a, b: a * b, x, 10.0).numpy().tolist() == [10.0, 20.0, 60.0]
        assert tf.scan(lambda a, b: a + b, x, reverse=True).numpy().tolist() == [6.0, 5.0, 3.0]
        n, s = tf.scan(lambda a, b: (a[0] + 1, a[1] + b), x, (0, 0.0))
        assert n.numpy().tolist() == [1, 2, 3]
        assert s.numpy().tolist() == [1.0, 3.0, 6.0]
        found = slope(lambda x: tf.scan(lambda a, b: a * b, x)[-1], [1.0, 2.0, 3.0])
        assert found.tolist() == [6.0, 3.0, 2.0]

    def test_folds(self):
        x = tf.constant([1.0, 2.0, 3.0])
        assert tf.foldl(lambda a, b: a - b, x).numpy() == -4.0
        assert tf.foldr(lambda a, b: a - b, x).numpy() == 0.0
        assert tf.foldl(lambda a, b: a + b, x, 10.0).numpy() == 16.0

    def test_vectorized_map(self):
        x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        assert tf.vectorized_map(tf.reduce_sum, x).numpy().tolist() == [3.0, 7.0]

        def jacobian(row):
            with tf.GradientTape() as tape:
                tape.watch(row)
                y = row**2
            return tape.jacobian(y, row)

        found = tf.vectorized_map(jacobian, x)
        assert type(found) is tf.Tensor
        assert found.numpy().tolist() == [[[2.0, 0.0], [0.0, 4.0]], [[6.0, 0.0], [0.0, 8.0]]]

    def test_refusals(self):
        with pytest.raises(ValueError, match="differ in length"):
            tf.map_fn(lambda p: p[0], (tf.ones([2]), tf.ones([3])))
        with pytest.raises(ValueError, match="returned 1 values for 2"):
            tf.while_loop(lambda i, j: i < 1, lambda i, j: [i + 1], (0, 0))


@pytest.mark.skipif(not hasattr(gt, "cond"), reason="gradtape has no control flow as ops")
class TestWithoutValues:
    """Inside vectorized_map predicates and counts have no value: gradtape's own ops take over."""

    x = tf.constant([1.0, -2.0, 3.0])

    def test_branches(self):
        def f(v):
            return tf.cond(v > 0.0, lambda: v * v, lambda: -v)

        assert tf.vectorized_map(f, self.x).numpy().tolist() == [1.0, 2.0, 9.0]

        def g(v):
            return tf.case([(v < 0.0, lambda: -v), (v < 2.0, lambda: v * 10)], default=lambda: v)

        assert tf.vectorized_map(g, self.x).numpy().tolist() == [10.0, 2.0, 3.0]
        numbers = tf.constant([0, 1, 5])
        found = tf.vectorized_map(lambda n: tf.switch_case(n, [lambda: 1.0, lambda: 2.0]), numbers)
        assert found.numpy().tolist() == [1.0, 2.0, 2.0]

    def test_loops(self):
        def cube(v):
            return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * v), (0, 1.0))[1]

        assert tf.vectorized_map(cube, self.x).numpy().tolist() == [1.0, -8.0, 27.0]
        sums = tf.vectorized_map(lambda v: tf.scan(lambda a, b: a + b, v), tf.ones([2, 3]))
        assert sums.numpy().tolist() == [[1.0, 2.0, 3.0]] * 2


class TestFunction:
    def test_results_are_those_of_the_function(self):
        @tf.function
        def f(x, y=2.0, *, scale=None):
            z = x * y
            return {"z": z, "parts": (z[0], [z[1]])} if scale is None else z * scale

        x = tf.constant([1.0, 2.0])
        for _ in range(3):
            found = f(x)
            assert type(found["z"]) is tf.Tensor
            assert found["z"].numpy().tolist() == [2.0, 4.0]
            assert found["parts"][1][0].numpy() == 4.0
        assert f(x, 3.0, scale=tf.constant(10.0)).numpy().tolist() == [30.0, 60.0]
        assert f(np.float32([1.0, 1.0]), 5)["z"].numpy().tolist() == [5.0, 5.0]

    def test_python_runs_once_for_each_kind_of_call(self):
        calls = []

        @tf.function
        def f(x):
            calls.append(x.shape)
            assert isinstance(x, tf.Tensor)
            return x + 1.0

        for value in (1.0, 2.0, 3.0):
            assert f(tf.constant(value)).numpy() == value + 1.0
        f(tf.constant([1.0]))
        assert calls == [[], [1]]
        assert f.experimental_get_tracing_count() == 2

    def test_branches_and_loops_on_values(self):
        @tf.function
        def collatz(n):
            steps = tf.constant(0)
            while n != 1:
                n = n // 2 if n % 2 == 0 else 3 * n + 1
                steps += 1
            return steps

        assert [collatz(tf.constant(n)).numpy() for n in (6, 1, 6, 8)] == [8, 0, 8, 3]

    def test_shapes_that_depend_on_values(self):
        calls = []

        @tf.function
        def f(x, n):
            calls.append(1)
            rows = tf.shape(x)[0]
            flat = tf.reshape(x, tf.concat([[rows], [-1]], 0))
            return flat, tf.tile(tf.range(n), [2]), tf.split(x, [1, n], axis=0)[1]

        for n in (1, 2, 1, 2, 3):
            flat, tiled, part = f(tf.ones([n + 1, 2, 2]), tf.constant(n))
            assert flat.shape == [n + 1, 4]
            assert tiled.numpy().tolist() == [*range(n), *range(n)]
            assert part.shape == [n, 2, 2]
        assert len(calls) == 3

    def test_numbers_are_inputs(self):
        @tf.function
        def f(x, y):
            return tf.constant(y), tf.fill([2], y), tf.stack([x, y]), tf.maximum(x, y), y - x

        x = tf.constant(1.5)
        for y in (2.0, 3.0, 4.0):
            for found, expected in zip(f(x, y), f.python_function(x, y), strict=True):
                assert found.dtype == tf.float32
                np.testing.assert_array_equal(found, expected)

    def test_variables_and_random_numbers(self):
        v = tf.Variable(0.0)

        @tf.function
        def step(x):
            v.assign_add(x)
            return v * 2.0

        assert [step(tf.constant(float(k))).numpy() for k in (1, 2, 3)] == [2.0, 6.0, 12.0]
        draw = tf.function(lambda: tf.random.normal([3]))
        assert (draw().numpy() != draw().numpy()).any()

    def test_methods_and_signatures(self):
        class Model(tf.Module):
            def __init__(self):
                super().__init__()
                self.w = tf.Variable(3.0)

            @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
            def scaled(self, x):
                return self.w * x

            @tf.function
            def __call__(self, x):
                return self.w * x

        model = Model()
        assert model(tf.constant(2.0)).numpy() == 6.0
        model.w.assign(5.0)
        assert model(tf.constant(2.0)).numpy() == 10.0
        assert model.scaled([1, 2]).numpy().tolist() == [5.0, 10.0]
        assert model.scaled._function is model.scaled._function

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
        def double(x):
            return x * 2.0

        assert double([1, 2]).numpy().tolist() == [2.0, 4.0]
        with pytest.raises(ValueError, match="input_signature"):
            double(tf.ones([2, 2]))
        assert double.get_concrete_function()(tf.ones([1])).numpy().tolist() == [2.0]

    def test_gradients_inside_and_around(self):
        @tf.function
        def inside(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = x**3
            return tape.gradient(y, x)

        for _ in range(3):
            assert inside(tf.constant(2.0)).numpy() == 12.0
        assert slope(inside, 2.0) == 12.0

    def test_run_functions_eagerly(self):
        calls = []
        f = tf.function(lambda x: calls.append(1) or x)
        tf.config.run_functions_eagerly(True)
        try:
            f(tf.constant(1.0))
            f(tf.constant(1.0))
        finally:
            tf.config.run_functions_eagerly(False)
        assert len(calls) == 2

    def test_options_are_accepted(self):
        f = tf.function(lambda x: x, autograph=False, jit_compile=True, reduce_retracing=True)
        assert f(tf.constant(1.0)).numpy() == 1.0


class TestCustomDerivatives:
    def test_custom_gradient(self):
        @tf.custom_gradient
        def scaled(x, y):
            def grad(dz):
                assert isinstance(dz, tf.Tensor)
                return dz * 10.0, dz * 20.0

            return x * y, grad

        x, y = tf.constant(2.0), tf.Variable(3.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            z = scaled(x, y)
        assert type(z) is tf.Tensor
        assert [g.numpy() for g in tape.gradient(z, [x, y])] == [10.0, 20.0]
        assert scaled(2.0, 3.0).dtype == tf.float32

    def test_with_variables(self):
        v = tf.Variable(3.0)

        @tf.custom_gradient
        def f(x):
            def grad(dy, variables=None):
                return dy * 7.0, [dy * 11.0 for _ in variables]

            return x * v, grad

        x = tf.constant(2.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        assert [g.numpy() for g in tape.gradient(y, [x, v])] == [7.0, 11.0]

    def test_others(self):
        assert slope(tf.grad_pass_through(tf.round), 1.3) == 1.0
        assert slope(tf.recompute_grad(lambda x: tf.sin(x) * x), 0.0) == 0.0
        assert slope(lambda x: x * tf.stop_gradient(x), 3.0) == 3.0


class TestCallbacks:
    def test_py_function(self):
        def f(x):
            assert isinstance(x, tf.Tensor)
            return x * x if float(x) > 0 else -x

        assert slope(lambda x: tf.py_function(f, [x], tf.float32), 3.0) == 6.0
        assert slope(lambda x: tf.py_function(func=f, inp=[x], Tout=tf.float32), -3.0) == -1.0
        several = tf.py_function(lambda x: (x, x + 1), [tf.constant(1.0)], [tf.float32, tf.float32])
        assert [t.numpy() for t in several] == [1.0, 2.0]

    def test_numpy_function(self):
        found = tf.numpy_function(lambda a: np.cumsum(a), [[1.0, 2.0]], tf.float32)
        assert type(found) is tf.Tensor
        assert found.numpy().tolist() == [1.0, 3.0]
        with pytest.raises(LookupError, match="numpy_function"):
            slope(lambda x: tf.numpy_function(np.sin, [x], tf.float32), 1.0)


def test_printing(capsys):
    tf.print("x =", tf.constant([1.0, 2.5]), tf.Variable(3), {"a": tf.constant(True)})
    assert capsys.readouterr().err == "x = [1 2.5] 3 {'a': 1}\n"
    tf.print(tf.range(10), tf.range(6), tf.constant([1e-5, 1 / 3]), tf.constant(1 / 3, tf.float64))
    expected = "[0 1 2 ... 7 8 9] [0 1 2 3 4 5] [1e-05 0.333333343] 0.33333333333333331\n"
    assert capsys.readouterr().err == expected
    tf.print(tf.range(10), tf.range(3), summarize=1, sep=";", end=".")
    assert capsys.readouterr().err == "[0 ... 9];[0 ... 2]."
    tf.print(tf.range(10), summarize=-1)
    assert capsys.readouterr().err == "[0 1 2 3 4 5 6 7 8 9]\n"
    with pytest.raises(ValueError, match="unknown"):
        tf.print(1, file=None)
    with pytest.raises(ValueError, match="output_stream"):
        tf.print(1, output_stream="log")


def test_nothing_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with tf.device("/GPU:0"), tf.name_scope("scope"), tf.init_scope():
            assert tf.config.list_physical_devices("GPU") == []
            assert tf.executing_eagerly()
