"""gt.function: variables, tensors that are written to, and what is made inside."""

import numpy as np
import pytest
from tests.jit.agreement import agrees, counted, stateless, tensors

import gradtape as gt

A = gt.asarray


def test_every_way_to_assign():
    def make():
        v, w = gt.Variable([1.0, 2.0, 3.0]), gt.Variable(0.0)

        def f(x):
            v.assign_add(x * gt.ones(3))
            v[1:] = v[:2] * 2.0
            v[0] = x
            w.assign(gt.sum(v))
            w.assign_sub(1.0)
            nonlocal_v = v
            nonlocal_v *= 0.5
            return v.value, w * 2.0

        return f, [v, w]

    assert agrees(make, tensors(1.0, 2.0, 3.0, 4.0)).runs == 2


def test_reads_see_what_was_assigned_before():
    def make():
        v = gt.Variable(1.0)

        def f(x):
            a = v * 1.0
            v.assign(x)
            b = v * 1.0
            v.assign_add(b)
            return a, b, v.value

        return f, [v]

    assert agrees(make, tensors(5.0, 7.0, 9.0)).runs == 2


def test_two_variables_exchanged():
    def make():
        v, w = gt.Variable(1.0), gt.Variable(2.0)

        def f():
            a, b = v.value, w.value
            v.assign(b)
            w.assign(a)
            return v, w

        return f, [v, w]

    assert agrees(make, [()] * 5).runs == 2


def test_a_variable_assigned_a_constant_an_argument_or_another():
    def make():
        v, w, u = (gt.Variable(0.0) for _ in range(3))

        def f(x):
            v.assign(3.0)
            w.assign(x)
            u.assign(w)

        return f, [v, w, u]

    found = agrees(make, tensors(1.0, 2.0, 3.0))
    assert found.runs == 2


def test_results_are_not_changed_by_later_calls():
    v = gt.Variable([1.0, 2.0])
    f = gt.function(lambda x: v.assign_add(x).value)
    found = [f(A([1.0, 1.0])) for _ in range(4)]
    assert [each.tolist() for each in found] == [[n + 2.0, n + 3.0] for n in range(4)]


def test_assignments_in_one_branch():
    def make():
        v = gt.Variable(1.0)

        def f(x):
            if x > 0.0:
                v.assign(x)
            return v * 1.0

        return f, [v]

    assert agrees(make, tensors(1.0, -1.0, 2.0, -2.0, 3.0, -4.0)).runs == 4


def test_guards_on_variables():
    def make():
        v = gt.Variable(0)

        def f(x):
            v.assign_add(1)
            return x * 2.0 if v % 3 == 0 else x

        return f, [v]

    assert agrees(make, tensors(*[1.0] * 9)).runs == 4


def test_gradients_through_assignments():
    def make():
        v = gt.Variable(2.0)

        def f(x):
            with gt.GradientTape() as tape:
                tape.watch(x)
                v.assign(x * x)
                y = v * v * x
            return tape.gradient(y, x)

        return f, [v]

    found = agrees(make, tensors(2.0, 3.0))
    assert float(found.results[0]) == 5 * 2.0**4


def test_training_step():
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

        return step, [w, b, m]

    rng = np.random.default_rng(0)
    calls = [
        (A(rng.standard_normal((4, 2))), A(rng.standard_normal((4, 1))), 0.1 / (n + 1))
        for n in range(6)
    ]
    assert agrees(make, calls).runs == 2


def test_steady_training_allocates_and_compiles_nothing():
    w = gt.Variable(np.ones((8, 4)))

    @gt.function
    def step(x):
        with gt.GradientTape() as tape:
            loss = gt.sum(gt.tanh(x @ w) ** 2)
        w.assign_sub(0.01 * tape.gradient(loss, w))
        return loss

    x = A(np.ones((16, 8)))
    for _ in range(5):
        step(x)
    before = gt.counters()
    for _ in range(10):
        step(x)
    after = gt.counters()
    assert after.plans_run - before.plans_run == 10
    assert after.kernels_compiled == before.kernels_compiled
    assert after.bytes_allocated == before.bytes_allocated


@pytest.mark.parametrize(
    "make_optimizer",
    [
        lambda: gt.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
        lambda: gt.optimizers.Adam(0.1),
        lambda: gt.optimizers.AdamW(0.1, weight_decay=0.01),
        lambda: gt.optimizers.RMSprop(0.1, momentum=0.5, centered=True),
        lambda: gt.optimizers.Adagrad(0.1),
        lambda: gt.optimizers.Adam(lambda step: 0.1 / (1.0 + step), clipnorm=0.5),
    ],
    ids=["sgd", "adam", "adamw", "rmsprop", "adagrad", "schedule"],
)
def test_optimizer_state(make_optimizer):
    def make():
        w, optimizer = gt.Variable([1.0, -2.0, 3.0]), make_optimizer()

        def step(x):
            with gt.GradientTape() as tape:
                loss = gt.sum((w * x - 1.0) ** 2)
            optimizer.apply_gradients(zip(tape.gradient(loss, [w]), [w], strict=True))
            return loss

        return step, [w]

    calls = [(A([1.0, 2.0, n]),) for n in (3.0, 1.0, 2.0, 4.0, 0.5, 1.5)]
    # The first run makes the optimiser's variables.
    assert agrees(make, calls).runs == 3


def test_a_learning_rate_that_is_set_later():
    w, optimizer = gt.Variable(np.ones(2)), gt.optimizers.SGD(0.5)
    step = gt.function(lambda g: optimizer.apply_gradients([(g, w)]))
    for _ in range(3):
        step(A(np.ones(2)))
    optimizer.learning_rate = 2.0
    step(A(np.ones(2)))
    assert w.numpy().tolist() == [-2.5, -2.5]


class TestMadeInside:
    """Variables that the first call makes are state from then on; others are its own affair."""

    def test_a_layer_that_builds_itself(self):
        def make():
            class Layer:
                w = None

                def __call__(self, x):
                    if self.w is None:
                        self.w = gt.Variable(x * 2.0)
                    self.w.assign_add(1.0)
                    return self.w * x

            return Layer(), []

        assert agrees(make, tensors(1.0, 2.0, 3.0, 4.0)).runs == 3

    def test_local_variables(self):
        def f(x):
            v = gt.Variable(x)
            w = gt.Variable(1.0)
            w.assign_add(v)
            v.assign_add(1.0)
            return v * w

        assert agrees(stateless(f), tensors(1.0, 2.0, 3.0)).runs == 2

    def test_a_new_variable_at_every_call(self):
        f = gt.function(lambda x: gt.Variable(x * 2.0))
        with pytest.warns(UserWarning, match="every call makes a Variable that outlives it"):
            found = [f(A(float(n))) for n in range(6)]
        assert [float(v) for v in found] == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
        assert len({id(v) for v in found}) == 6

    def test_a_tape_that_outlives_the_call(self):
        def f(x):
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = x * x
            return y, tape, x

        compiled = gt.function(f)
        with pytest.warns(UserWarning, match="an object of class GradientTape"):
            found = [compiled(A(value)) for value in (1.0, 2.0, 3.0, 4.0, 5.0)]
        slopes = [float(tape.gradient(y, x)) for y, tape, x in found]
        assert slopes == [2.0, 4.0, 6.0, 8.0, 10.0]

    def test_models_in_training_and_in_use(self):
        def make():
            model = gt.nn.Sequential(
                [gt.nn.Dense(3, kernel_initializer="ones"), gt.nn.Dropout(0.5, seed=1)]
            )

            def f(x, mode):
                return model(x)

            f.model = model
            return f, []

        plain, decorated = make()[0], make()[0]
        inner, runs = counted(decorated)
        compiled = gt.function(inner)
        x = A(np.ones((2, 2)))
        for training in (True, True, True, False, False, True, False, True):
            for f in (plain, decorated):
                f.model.train(training)
            assert compiled(x, 0).tolist() == plain(x, 0).tolist()
        assert len(runs) == 5


class TestTensorsWrittenTo:
    def test_an_argument(self):
        def f(x):
            x += 1.0
            x[0] = 5.0
            return x * 2.0

        compiled = gt.function(f)
        mine, theirs = A([1.0, 2.0]), A([1.0, 2.0])
        for _ in range(4):
            assert compiled(mine).tolist() == f(theirs).tolist()
            assert mine.tolist() == theirs.tolist()

    def test_one_in_a_nest(self):
        def f(nest):
            nest["a"] *= 2.0
            return nest["a"] + nest["b"]

        compiled = gt.function(f)
        mine, theirs = [{"a": A(1.0), "b": A(2.0)} for _ in range(2)]
        for _ in range(3):
            assert float(compiled(mine)) == float(f(theirs))
            assert float(mine["a"]) == float(theirs["a"])

    def test_one_from_outside(self):
        def make():
            buffer = A([0.0, 0.0, 0.0])

            def f(x):
                buffer[1] = buffer[0] + x
                buffer[0] = x
                return gt.sum(buffer)

            return f, [buffer]

        assert agrees(make, tensors(1.0, 2.0, 3.0, 4.0)).runs == 2

    def test_one_made_inside_is_new_in_every_call(self):
        def f(x):
            out = gt.asarray([0.0, 0.0])
            out[0] = x
            more = gt.zeros(2)
            more += x
            return out, more

        compiled = gt.function(f)
        first = compiled(A(1.0))
        second = compiled(A(2.0))
        assert [part.tolist() for part in first] == [[1.0, 0.0], [1.0, 1.0]]
        assert [part.tolist() for part in second] == [[2.0, 0.0], [2.0, 2.0]]

    def test_what_is_returned_may_be_written_to(self):
        f = gt.function(lambda x: x * 2.0)
        for _ in range(3):
            y = f(A([1.0, 2.0]))
            y[0] = 100.0
            assert y.tolist() == [100.0, 4.0]
            assert f(A([1.0, 2.0])).tolist() == [2.0, 4.0]


class TestFailures:
    def test_shape_errors_come_on_their_line_and_state_is_as_in_python(self):
        def make():
            v = gt.Variable(1.0)

            def f(x):
                v.assign_add(1.0)
                y = gt.add(x, A([1.0, 2.0]))
                v.assign_add(10.0)
                return y

            return f, [v]

        calls = [(A(np.ones(n)),) for n in (3, 2, 3, 2)]
        agrees(make, calls)

    def test_singular_matrices_too(self):
        def make():
            v, generator = gt.Variable(0.0), gt.random.Generator(0)

            def f(a):
                v.assign_add(1.0)
                noise = generator.normal(())
                b = gt.linalg.inv(a)
                v.assign_add(10.0)
                return b + noise + generator.normal(())

            return f, [v, generator]

        good, bad = A([[1.0, 2.0], [3.0, 5.0]]), A([[1.0, 2.0], [2.0, 4.0]])
        agrees(make, [(m,) for m in (bad, good, bad, good, bad, bad, good)])

    def test_errors_that_the_function_catches(self):
        def f(a):
            try:
                return gt.linalg.inv(a)
            except np.linalg.LinAlgError:
                return a * 0.0

        good, bad = A([[1.0, 2.0], [3.0, 5.0]]), A([[1.0, 2.0], [2.0, 4.0]])
        agrees(stateless(f), [(m,) for m in (bad, good, bad, good, bad)])

    def test_an_index_out_of_range(self):
        table = A(np.arange(3.0))
        calls = [(A(n),) for n in (0, 5, 1, 5, 2, -4)]
        agrees(stateless(lambda i: table[i] * 2.0), calls)
