"""What functions do to their arguments and around them, and what happens there meanwhile."""

import collections
import dataclasses
import gc
import warnings

import numpy as np
import pytest
from tests.jit import agreement
from tests.jit.twins import assert_twins

import gradtape as gt


def tensors(*values):
    return [(gt.asarray(value),) for value in values]


# Arguments that are changed.


def a_tensor_changed_in_place():
    x = gt.asarray([1.0, 2.0])

    def f(x):
        x += 1.0
        return x * 2.0

    return f, [(x,)] * 4, lambda: x


def items_of_a_tensor():
    x = gt.asarray([1.0, 2.0])

    def f(x):
        if x[0] > 3.0:
            x[1] = 0.0
        x[0] = x[1] + 1.0
        return x * 2.0

    return f, [(x,)] * 5, lambda: x


def a_tensor_given_twice():
    x, y = gt.asarray([1.0, 2.0]), gt.asarray([5.0, 7.0])

    def f(a, b):
        a += 1.0
        return a * b

    return f, [(x, x), (x, y), (y, x), (x, x), (y, y)], lambda: [x, y]


def a_tensor_in_a_nest_and_outside_it():
    x = gt.asarray([1.0, 2.0])

    def f(nest, y):
        nest["x"][0] = 5.0
        y *= 2.0
        return nest["x"] + y

    return f, [({"x": x}, x), ({"x": x}, gt.asarray([1.0, 1.0])), ({"x": x}, x)], lambda: x


def changed_before_it_fails():
    x = gt.asarray([[1.0, 0.0], [0.0, 1.0]])

    def f(x):
        x[0, 0] = x[0, 0] - 1.0
        return gt.linalg.inv(x)

    return f, [(x,)] * 4, lambda: x


def a_list_that_grows():
    held = [gt.asarray(1.0)]

    def f(items):
        items.append(items[-1] * 2.0)
        return items[-1] + 1.0

    return f, [lambda: (held,)] * 5, lambda: held


def a_nest_that_is_changed():
    held = {"list": [gt.asarray(1.0), 2.0], "count": 0}

    def f(nest, x):
        nest["list"][0] = nest["list"][0] + x
        nest["count"] = nest["count"] + 1
        nest["new"] = x
        return nest["list"][0] * 1.0

    return f, [lambda: (held, gt.asarray(2.0))] * 6, lambda: held


def a_dataclass_that_is_changed():
    @dataclasses.dataclass
    class State:
        x: object
        count: int = 0

        def __post_init__(self):
            self.total = gt.Variable(0.0)

    state = State(gt.asarray(1.0))

    def f(state):
        state.x = state.x * 2.0
        state.count += 1
        state.total.assign_add(state.x)
        return state.x + 1.0

    return f, [lambda: (state,)] * 6, lambda: [state.x, state.count, state.total.value]


def a_dataclass_whose_method_only_reads():
    @dataclasses.dataclass
    class Filter:
        x: object
        gain: float = 0.5

        def __post_init__(self):
            self.scale = gt.Variable(1.0)

        def moved(self, y):
            self.scale.assign_add(1.0)
            return dataclasses.asdict(self)["gain"] * (y - self.x) * self.scale

    made = [Filter(gt.asarray(0.0)), Filter(gt.asarray(1.0), 0.25)]
    calls = [(made[n % 2], gt.asarray(float(n))) for n in range(6)]
    return Filter.moved, calls, lambda: [each.scale.value for each in made]


ARGUMENTS = [
    a_tensor_changed_in_place, items_of_a_tensor, a_tensor_given_twice,
    a_tensor_in_a_nest_and_outside_it, changed_before_it_fails, a_list_that_grows,
    a_nest_that_is_changed, a_dataclass_that_is_changed, a_dataclass_whose_method_only_reads,
]  # fmt: skip

# What is around.


def a_list_around():
    kept = []

    def f(x):
        kept.append(x * 2.0)
        return x

    return f, tensors(1.0, 2.0, 3.0, 4.0), lambda: kept


def a_name_around():
    total = gt.asarray(1.0)

    def f(x):
        nonlocal total
        total = total + x
        return total * 2.0

    return f, tensors(1.0) * 4, lambda: total


def an_attribute_that_is_also_returned():
    class Cell:
        state = gt.asarray(1.0)

    cell = Cell()

    def f(cell, x):
        cell.state = cell.state * 2.0 + x
        return cell.state

    return f, [(cell, gt.asarray(1.0))] * 4, lambda: cell.state


def a_queue_as_an_argument():
    queue = collections.deque([gt.asarray(1.0)], maxlen=3)

    def f(queue, x):
        queue.append(queue[-1] * 2.0 + x)
        return sum(queue)

    return f, [(queue, gt.asarray(2.0))] * 5, lambda: list(queue)


def a_tensor_replaced_between_calls():
    known = [gt.asarray(1.0)]

    def look():
        known[0] = known[0] + 1.0

    return lambda x: x + known[0], tensors(1.0) * 5, look


def a_tensor_changed_between_calls():
    known = gt.asarray([1.0, 2.0])

    def look():
        known[0] = known[1] + known[0]

    return lambda x: x + known, tensors(1.0) * 5, look


def parameters_of_a_functional_style():
    known = [[gt.asarray(1.0), gt.asarray(2.0)]]

    def f(x):
        a, b = known[0]
        with gt.GradientTape() as tape:
            tape.watch([a, b])
            loss = (a * x + b) ** 2
        return loss, tape.gradient(loss, [a, b])

    def look():
        known[0] = [each * 0.9 for each in known[0]]
        return known[0]

    return f, tensors(2.0) * 6, look


def a_switch_of_dtypes():
    count = [0]

    def look():
        count[0] += 1
        gt.set_default_dtype("float32" if count[0] % 2 else "float64")

    return lambda x: gt.zeros((2,)) + x, [(np.float32(1.0),)] * 4, look


def an_argument_that_is_kept():
    kept = []

    def f(x):
        kept.append(x)
        return x * 2.0

    return f, tensors(1.0, 2.0, 3.0, 4.0, 5.0), lambda: kept


def what_a_variable_held_is_kept():
    kept, v = [], gt.Variable(1.0)

    def f(x):
        kept.append(v.value)
        v.assign_add(x)
        return x

    return f, tensors(1.0, 2.0, 3.0, 4.0, 5.0), lambda: kept


def an_argument_that_is_also_around():
    x = gt.asarray([1.0, 2.0])

    def f(a):
        before = x * 3.0
        a += 1.0
        return before, x * 2.0

    return f, [(x,)] * 4 + [(gt.asarray([5.0, 6.0]),)] * 3, lambda: x


def computed_once_and_kept():
    known = []

    def f(x):
        if not known:
            known.append(gt.exp(x))
        return known[0] + x

    return f, tensors(1.0, 2.0, 3.0, 4.0), lambda: known


def a_tensor_around_that_is_returned():
    known = [gt.asarray([1.0, 2.0])]

    def look():
        known[0] = known[0] + 1.0

    return lambda x: known[0], tensors(1.0) * 4, look


def numbers_of_a_tensor_around():
    known = [gt.asarray(1.0), gt.asarray([1.0, 2.0]), gt.asarray([0, 1])]

    def f(x):
        return x[known[2]] * float(known[0]) + known[1].numpy().sum()

    def look():
        known[0] = known[0] + 1.0
        known[1][0] = 5.0 * known[1][0]
        known[2] = 1 - known[2]

    return f, tensors([1.0, 3.0]) * 4, look


def a_nest_changed_before_it_fails():
    held = {"a": gt.asarray(np.zeros((2, 2))), "seen": []}

    def f(held, x):
        held["a"] = held["a"] + x
        held["seen"].append(x)
        return gt.linalg.inv(held["a"])

    calls = [(held, gt.asarray(matrix)) for matrix in (np.zeros((2, 2)), np.eye(2), np.eye(2))]
    return f, calls, lambda: held


AROUND = [
    an_argument_that_is_kept, what_a_variable_held_is_kept, an_argument_that_is_also_around,
    computed_once_and_kept, a_tensor_around_that_is_returned, numbers_of_a_tensor_around,
    a_nest_changed_before_it_fails,
    a_list_around, a_name_around, an_attribute_that_is_also_returned, a_queue_as_an_argument,
    a_tensor_replaced_between_calls, a_tensor_changed_between_calls,
    parameters_of_a_functional_style, a_switch_of_dtypes,
]  # fmt: skip


@pytest.fixture(autouse=True)
def usual_dtype():
    yield
    gt.set_default_dtype("float64")


@pytest.mark.parametrize("make", [*ARGUMENTS, *AROUND], ids=lambda make: make.__name__)
def test_equals_the_undecorated_program(make):
    assert_twins(make)


def counted(f):
    wrapped, runs = agreement.counted(f)
    return gt.function(wrapped), runs


def test_in_place_changes_of_tensors_are_captured():
    def newton(x):
        while gt.abs(x * x - 2.0) > 1e-12:
            x -= (x * x - 2.0) / (2.0 * x)
        return x

    f, runs = counted(newton)
    for start in (1.0, 100.0, 1.0, 100.0):
        x = gt.asarray(start)
        found = f(x)
        assert float(found) == float(x) == pytest.approx(2.0**0.5)
    assert len(runs) == 4


def test_tensors_around_that_stay_cost_no_run():
    table, offset = gt.asarray(np.arange(6.0)), gt.asarray(2.0)
    f, runs = counted(lambda x: gt.sum(table * x) + offset + gt.asarray(1.0))
    for x in (1.0, 2.0, 3.0):
        assert float(f(gt.asarray(x))) == 15.0 * x + 3.0
    assert len(runs) == 2


def test_functions_that_call_themselves_leave_nothing_behind():
    count = gt.Variable(0)

    def f(x):
        known = {}
        count.assign_add(1)

        def visit(n):
            if n < 2:
                return x
            if n not in known:
                known[n] = visit(n - 1) + visit(n - 2)
            return known[n]

        return visit(12)

    f, runs = counted(f)
    for x in (1.0, 2.0, 3.0):
        assert float(f(gt.asarray(x))) == 233.0 * x
    assert len(runs) == 2
    assert int(count) == 3


def test_objects_that_hold_tensors_are_returned_by_python():
    class Pair:
        def __init__(self, a):
            self.a = a

    f, runs = counted(lambda x: Pair(x * 2.0))
    with pytest.warns(UserWarning, match="object of class Pair"):
        assert float(f(gt.asarray(1.0)).a) == 2.0
    assert float(f(gt.asarray(5.0)).a) == 10.0
    assert len(runs) == 2


def test_a_capture_that_was_begun_by_an_argument_does_not_keep_it_alive():
    f = gt.function(lambda x: gt.sum(x) * 2.0)
    gc.collect()
    before = gt.counters()
    for _ in range(50):
        f(gt.asarray(np.ones(10_000)))
    after = gt.counters()
    assert after.bytes_allocated - before.bytes_allocated < 50 * 80_000


def test_constants_are_returned_anew():
    f, runs = counted(lambda: gt.asarray([1.0, 2.0]))
    for _ in range(3):
        found = f()
        assert found.tolist() == [1.0, 2.0]
        found += 1.0
    assert len(runs) == 2


def test_tensors_kept_outside_are_told_once():
    kept = []
    f, runs = counted(lambda x: kept.append(x * 2.0))
    with pytest.warns(UserWarning, match="it changes kept") as told:
        _ = [f(gt.asarray(float(number))) for number in range(6)]
    assert len(told) == 1
    assert len(runs) == 6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(gt.asarray(0.0))
