"""State that functions read and leave: generators, variables, callbacks, and errors in between."""

import numpy as np
import pytest
from tests.jit.agreement import Runs
from tests.jit.twins import assert_twins

import gradtape as gt

EYE, ZEROS = np.eye(2), np.zeros((2, 2))


def tensors(*values):
    return [(gt.asarray(value),) for value in values]


# Random numbers.


def draws_used_in_another_order():
    generator = gt.random.Generator(3)

    def f(x):
        a, b = generator.normal(()), generator.normal(())
        return b * 2.0 - a

    return f, tensors(1.0) * 4, lambda: generator.state


def draws_that_nobody_uses():
    generator = gt.random.Generator(3)

    def f(x):
        generator.normal((5,))
        return x + generator.normal(())

    return f, tensors(1.0) * 4, lambda: generator.state


def draws_on_one_way_only():
    one, other = gt.random.Generator(3), gt.random.Generator(4)

    def f(x):
        a = one.normal((3,))
        other.normal((2,))
        b = other.uniform(())
        if x > 0.0:
            return b
        return gt.sum(a) + one.normal(())

    return f, tensors(1.0, -1.0, 1.0, -1.0, 2.0, -3.0), lambda: [one.state, other.state]


def generators_made_inside():
    def f(x):
        return x + gt.random.Generator(5).normal((2,)) + gt.random.normal((2,), seed=4)

    return f, tensors(1.0) * 3, None


def a_generator_made_at_the_first_call():
    known = []

    def f(x):
        if not known:
            known.append(gt.random.Generator(1))
        return x + known[0].uniform((2,))

    return f, tensors(1.0) * 4, lambda: known[0].state


def seeds_set_between_calls():
    return lambda x: x + gt.random.normal((2,)), tensors(1.0) * 4, lambda: gt.random.seed(2)


def seeds_set_inside():
    def f(x):
        gt.random.seed(3)
        return x + gt.random.normal((2,))

    return f, tensors(1.0) * 3, lambda: gt.random.normal(())


def a_look_at_the_state_of_a_generator():
    generator = gt.random.Generator(1)

    def f(x):
        return x * float(generator.state[2]) + generator.normal(())

    return f, tensors(1.0) * 4, lambda: generator.state


def generators_as_arguments():
    one, other = gt.random.Generator(1), gt.random.Generator(2)
    calls = [(generator, gt.asarray(1.0)) for generator in (one, other, one, other)]
    return lambda g, x: g.normal(()) * x, calls, lambda: [one.state, other.state]


def draws_for_each_example():
    generator = gt.random.Generator(1)

    def f(x):
        return gt.vmap(lambda row: row + generator.normal(()))(x)

    return f, tensors([1.0, 2.0]) * 3, lambda: generator.state


def draws_in_a_scan():
    generator = gt.random.Generator(1)

    def f(x):
        return gt.scan(lambda c, a: (c + a * generator.normal(()), c), x, gt.arange(1.0, 4.0))

    return f, tensors(1.0) * 3, lambda: generator.state


def dropout_that_is_switched():
    layer, count = gt.nn.Dropout(0.5), [0]

    def look():
        count[0] += 1
        layer.train(count[0] % 2 == 0)

    return layer, tensors(np.ones(8)) * 6, look


RANDOM = [
    draws_used_in_another_order, draws_that_nobody_uses, draws_on_one_way_only,
    generators_made_inside, a_generator_made_at_the_first_call, seeds_set_between_calls,
    seeds_set_inside, a_look_at_the_state_of_a_generator, generators_as_arguments,
    draws_for_each_example, draws_in_a_scan, dropout_that_is_switched,
]  # fmt: skip

# Variables.


def a_variable_made_inside():
    def f(x):
        v = gt.Variable(0.0)
        v.assign_add(x)
        v.assign_add(x)
        return v.value

    return f, tensors(1.0, 2.0, 3.0), None


def a_variable_made_of_an_argument():
    def f(x):
        v, w = gt.Variable(x), gt.Variable(x * 2.0)
        v.assign_add(1.0)
        if v.value > 3.0:
            w.assign(v.value)
        u = gt.Variable(w.value)
        return v * w + u

    return f, tensors(1.0, 2.0, 3.0, 5.0, 1.5), None


def a_variable_made_at_the_first_call():
    known = {}

    def f(x):
        if "w" not in known:
            known["w"] = gt.Variable(gt.random.normal(()))
        known["w"].assign_add(x)
        return known["w"] * 2.0

    return f, tensors(1.0, 2.0, 3.0, 4.0), lambda: [known["w"].value, gt.random.normal(())]


def what_a_variable_held_before():
    v = gt.Variable(1.0)

    def f(x):
        old = v.value
        v.assign_add(x)
        return old

    return f, tensors(3.0, 10.0, 100.0, 4.0), lambda: v.value


def a_tensor_that_was_a_variables_value():
    v = gt.Variable(1.0)
    old = v.value
    return lambda x: old - v * x, tensors(1.0) * 4, lambda: v.assign_add(1.0).value


def exchanged():
    a, b = gt.Variable(1.0), gt.Variable(2.0)

    def f(x):
        old = a.value
        a.assign(b)
        b.assign(old + x)
        return a - b

    return f, tensors(3.0, 10.0, 100.0, 4.0), lambda: [a.value, b.value]


def a_loop_on_a_variable():
    v = gt.Variable(1.0)

    def f(x):
        count = 0
        while v.value < x:
            v.assign(v * 2.0)
            count += 1
        v.assign(v / 3.0)
        return v * 1.0, count

    return f, tensors(3.0, 10.0, 100.0, 4.0, 5.0, 10.0), lambda: v.value


def variables_as_arguments():
    v, w = gt.Variable([1.0, 2.0]), gt.Variable([5.0, 6.0])

    def f(variable, x):
        variable.assign_add(x)
        return variable * 2.0

    calls = [(variable, gt.asarray(1.0)) for variable in (v, w, v, w, v)]
    return f, calls, lambda: [v.value, w.value]


def a_variable_returned():
    v = gt.Variable([1.0, 2.0])
    return lambda x: v.assign_add(x), tensors(1.0) * 4, lambda: v.value


def items_assigned():
    v = gt.Variable([1.0, 2.0, 3.0])

    def f(x, place):
        v[place] = x * 2.0
        v[0] += 1.0
        return v * 1.0

    calls = [(gt.asarray(float(n)), place) for n, place in enumerate((0, 1, 2, 1, -1, 0))]
    return f, calls, lambda: v.value


def values_read_in_scans_and_vmaps():
    v, known = gt.Variable(2.0), [gt.asarray(3.0)]

    def f(x):
        scanned = gt.scan(lambda c, a: (c * v.value + a * v + known[0], c), x[0], x)
        return scanned, gt.vmap(lambda row: row * v.value + v + known[0])(x)

    def look():
        v.assign_add(1.0)
        known[0] = known[0] + 1.0

    return f, tensors([1.0, 2.0]) * 4, look


def gradients_through_vmap():
    v = gt.Variable(2.0)

    def f(x):
        with gt.GradientTape() as tape:
            y = gt.sum(gt.vmap(lambda row: row * v.value * v.value)(x))
        v.assign_sub(0.1 * tape.gradient(y, v))
        return y

    return f, tensors([1.0, 2.0]) * 4, lambda: v.value


def steps_counted_under_a_tape():
    def f(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.while_loop(lambda c: c < 100.0, lambda c: c * x, x)
        return y, tape.gradient(y, x)

    return f, tensors(2.0, 3.0, 1.5, 2.0, 7.0, 1.25), None


def optimizer_state():
    w, optimizer = gt.Variable([1.0, 2.0]), gt.optimizers.Adam(0.1)

    def f(x):
        optimizer.minimize(lambda: gt.sum((w * x) ** 2), [w])

    def look():
        optimizer.learning_rate = float(optimizer.learning_rate) * 0.5
        return [np.round(v.numpy(), 12) for v in (w, *optimizer.variables)]

    return f, tensors(*[[1.0, float(n)] for n in range(5)]), look


VARIABLES = [
    a_variable_made_inside, a_variable_made_of_an_argument, a_variable_made_at_the_first_call,
    what_a_variable_held_before, a_tensor_that_was_a_variables_value, exchanged,
    a_loop_on_a_variable, variables_as_arguments, a_variable_returned, items_assigned,
    values_read_in_scans_and_vmaps, gradients_through_vmap, steps_counted_under_a_tape,
    optimizer_state,
]  # fmt: skip

# Errors, and Python that is called.


def assigned_before_it_fails():
    v, generator = gt.Variable(0.0), gt.random.Generator(2)

    def f(a):
        v.assign_add(generator.uniform(()))
        found = gt.linalg.inv(a)
        return found * generator.uniform(())

    calls = tensors(EYE, EYE, ZEROS, EYE, ZEROS, 2 * EYE)
    return f, calls, lambda: [v.value, generator.state]


def caught_inside():
    def f(a):
        try:
            return gt.linalg.inv(a)
        except np.linalg.LinAlgError:
            return a - 1.0

    return f, tensors(EYE, EYE, ZEROS, EYE, ZEROS), None


def caught_at_the_first_call():
    f, _, _ = caught_inside()
    return f, tensors(ZEROS, EYE, ZEROS, EYE, ZEROS), None


def retried_with_jitter():
    """How much has to be added to the diagonal until the matrix is positive definite."""

    def f(a):
        for power in range(-3, 3):
            try:
                return gt.linalg.cholesky(a + 10.0**power * gt.eye(2)), power
            except np.linalg.LinAlgError:
                continue
        raise ArithmeticError("not even so")

    return f, tensors(EYE, -0.5 * EYE, EYE, ZEROS, -5 * EYE, -0.5 * EYE, -500 * EYE), None


def raised_by_a_value():
    v = gt.Variable(0.0)

    def f(x):
        v.assign_add(x)
        if v.value > 2.5:
            raise ValueError("too large")
        return v.value

    return f, tensors(*[1.0] * 5, -4.0, *[1.0] * 3), lambda: v.value


def a_value_that_is_no_integer():
    v = gt.Variable(0.0)

    def f(x):
        v.assign_add(1.0)
        return gt.ones(int(x))

    return f, tensors(1.0, 2.0, np.nan, 1.0, np.inf), lambda: v.value


def an_index_out_of_range():
    v = gt.Variable(0.0)

    def f(x, place):
        v.assign_add(1.0)
        return x[place]

    x = gt.asarray([1.0, 2.0, 3.0])
    return f, [(x, gt.asarray(place)) for place in (0, 1, 2, 5, -1, -4)], lambda: v.value


def callbacks_before_a_guard():
    log = []

    def called(a):
        log.append(float(a))
        return np.asarray(a * 2.0)

    def f(x):
        y = gt.numpy_function(called, [x], ((), gt.float64))
        return y + 1.0 if y > 3.0 else y

    return f, tensors(1.0, 2.0, 1.0, 2.0, 5.0), lambda: log


def callbacks_in_order():
    log = []

    def called(tag):
        return lambda a: log.append(tag) or np.asarray(a * 2.0)

    first, second = called(1), called(2)

    def f(x):
        a = gt.numpy_function(first, [x], ((), gt.float64))
        b = gt.numpy_function(second, [x], ((), gt.float64))
        gt.numpy_function(first, [x], ((), gt.float64))
        return b, a

    return f, tensors(1.0, 2.0, 1.0), lambda: log


def callbacks_that_fail():
    log, v = [], gt.Variable(0.0)

    def called(a):
        log.append(float(a))
        if a > 2:
            raise KeyError("no")
        return np.asarray(a * 2.0)

    def f(x):
        v.assign_add(1.0)
        try:
            return gt.numpy_function(called, [x], ((), gt.float64))
        except KeyError:
            return x * 100.0

    return f, tensors(1.0, 2.0, 3.0, 1.0, 4.0, 2.0), lambda: [log, v.value]


def callbacks_that_assign():
    v = gt.Variable(1.0)

    def called(a):
        v.assign_add(float(a))
        return np.asarray(a)

    def f(x):
        before = v * 1.0
        gt.numpy_function(called, [x], ((), gt.float64))
        return before, v * 2.0

    return f, tensors(1.0, 2.0, 3.0, 1.0, 4.0), lambda: v.value


ERRORS = [
    assigned_before_it_fails, caught_inside, caught_at_the_first_call, retried_with_jitter,
    raised_by_a_value, a_value_that_is_no_integer, an_index_out_of_range, callbacks_before_a_guard,
    callbacks_in_order, callbacks_that_fail, callbacks_that_assign,
]  # fmt: skip


@pytest.mark.parametrize("make", [*RANDOM, *VARIABLES, *ERRORS], ids=lambda make: make.__name__)
def test_equals_the_undecorated_program(make):
    assert_twins(make)


def test_the_first_call_that_makes_variables_is_not_the_one_to_repeat():
    runs = Runs()
    note = runs.note
    model = gt.nn.Sequential([gt.nn.Dense(3), gt.nn.Dense(1)])

    @gt.function
    def predict(x):
        note()
        return model(x)

    x = gt.asarray(np.ones((2, 2)))
    found = [predict(x).tolist() for _ in range(5)]
    assert found == [found[0]] * 5
    assert len(runs) == 3
    (layer, *_) = model.variables
    layer.assign(np.zeros(layer.shape))
    assert predict(x).tolist() == [[0.0], [0.0]]
    assert len(runs) == 3


def test_variables_at_every_call_that_outlive_it_are_left_to_python():
    kept = []

    @gt.function
    def f(x):
        kept.append(gt.Variable(x * 2.0))
        return x

    with pytest.warns(UserWarning, match="it changes kept"):
        _ = [f(gt.asarray(float(number))) for number in range(5)]
    assert [float(v) for v in kept] == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_a_failed_call_is_no_reason_to_give_up():
    runs = Runs()
    note = runs.note

    @gt.function
    def f(a):
        note()
        return gt.linalg.inv(a)

    for _ in range(10):
        f(gt.asarray(EYE))
        with pytest.raises(np.linalg.LinAlgError):
            f(gt.asarray(ZEROS))
    assert len(runs) == 12
