"""Calls that go from the arguments to the results in native code: what they give, and when not."""

import gc
import threading
import weakref

import numpy as np
import pytest
from tests.growth import least_growth

import gradtape as gt
from gradtape.compiler.cpython import objects, switch
from gradtape.jit.captured import calls_before_native

pytestmark = pytest.mark.skipif(
    not objects.supported() or switch.MODE == "python", reason="not for this interpreter"
)
A = gt.asarray


def often(f, *args):
    """Call it until there is a native way for such calls, if there is any."""
    for _ in range(2 * calls_before_native() + 10):
        f(*args)
        gt.wait_for_compiler()
    function = getattr(f, "__func__", f)
    return [each.native_call for each in function.captured if each.native_call is not None]


def direct_calls(f):
    function = getattr(f, "__func__", f)
    return sum(each.native_call.calls for each in function.captured if each.native_call is not None)


def same(found, expected):
    leaves, structure = gt.pytree.flatten(found)
    others, other = gt.pytree.flatten(expected)
    assert structure == other
    for one, two in zip(leaves, others, strict=True):
        assert type(one) is type(two)
        if isinstance(two, gt.Tensor):
            assert (one.shape, one.dtype) == (two.shape, two.dtype)
            np.testing.assert_allclose(one.numpy(), two.numpy(), rtol=1e-6)
        else:
            assert one == two


W = A(np.arange(6.0).reshape(2, 3))
PROGRAMS = {
    "one": (lambda x: gt.sin(x) * 2.0, lambda i: (A([1.0 + i, 2.0]),)),
    "float32": (lambda x: gt.sin(x) * 2.0, lambda i: (A([1.0 + i, 2.0], dtype="float32"),)),
    "float": (lambda x, rate: x * rate, lambda i: (A([1.0, 2.0]), 0.5 + i)),
    "float as float32": (lambda x, r: x * r, lambda i: (A([1.0], dtype="float32"), 0.1 + i)),
    "computed number": (lambda x, r: x * (1.0 - r) ** 2, lambda i: (A([1.0, 2.0]), 0.5 + i)),
    "huge number": (lambda x, r: x * r, lambda i: (A([1.0], dtype="float32"), 1e300 * (i + 1))),
    "0-d": (lambda x, y: gt.sin(x) * y, lambda i: (A(1.0 + i), A([1.0, 2.0]))),
    "0-d of integers": (lambda x, y: x * y, lambda i: (A(2 + i), A([1, 2]))),
    "closure": (lambda x: W @ x, lambda i: (A([1.0 + i, 2.0, 3.0]),)),
    "tuple": (lambda x: (x + 1.0, x * 2.0), lambda i: (A([1.0 + i]),)),
    "list": (lambda x: [x + 1.0, x * 2.0], lambda i: (A([1.0 + i]),)),
    "dict": (lambda x: {"a": x + 1.0, "b": [x * 2.0]}, lambda i: (A([1.0 + i]),)),
    "constant": (lambda x: (x + 1.0, 3, "text", None), lambda i: (A([1.0 + i]),)),
    "nothing": (lambda x: None, lambda i: (A([1.0 + i]),)),
    "same twice": (lambda x: (y := x + 1.0, y), lambda i: (A([1.0 + i]),)),
    "given list": (lambda xs: xs[0] * xs[1], lambda i: ([A([1.0 + i]), A([3.0])],)),
    "given nest": (
        lambda p, x: {"g": p["w"] @ x + p["more"][0] * p["more"][1]},
        lambda i: ({"w": A(np.eye(2) * (i + 1.0)), "more": (A([1.0]), 2.0 + i)}, A([1.0, 2.0])),
    ),
    "given None": (lambda x, y: x + 1.0 if y is None else x + y, lambda i: (A([1.0 + i]), None)),
    "static": (
        lambda x, how, n, up: x**n if how == "power" and up else x,
        lambda i: (A([1.0 + i]), "power", 3, True),
    ),
    "empty": (lambda x: gt.sin(x) + 1.0, lambda i: (A(np.zeros((0, 3))),)),
    "large": (lambda x: gt.sin(x) * x, lambda i: (A(np.linspace(0.0, 1.0 + i, 300_000)),)),
    "product": (lambda x: x @ x, lambda i: (A(np.eye(40) * (i + 1.0)),)),
    "complex": (lambda x: x * x, lambda i: (A([1.0 + 1j * i]),)),
    "gradient": (
        lambda x: gt.grad(lambda x: gt.sum(gt.tanh(W @ x)))(x),
        lambda i: (A([1.0 + i, 2.0, 3.0]),),
    ),
}
IN_PYTHON = {"nothing"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_as_in_python(name):
    python, given = PROGRAMS[name]
    f = gt.function(python)
    # Numbers are inputs once they had two values. NumPy warns of overflows, which is an error here,
    # so the first run may not count.
    f(*given(1)), f(*given(1))
    found = often(f, *given(0))
    assert bool(found) == (name not in IN_PYTHON)
    for number in range(4):
        before = direct_calls(f)
        same(f(*given(number)), python(*given(number)))
        assert direct_calls(f) == before + bool(found)


def test_it_counts_as_other_runs_do():
    f = gt.function(lambda x: gt.sin(x) * 2.0)
    x = A([1.0, 2.0])
    (found,) = often(f, x)
    before, calls = gt.counters(), f.captured[0].calls
    f(x)
    after = gt.counters()
    assert found.calls
    assert f.captured[0].calls == calls + 1
    assert after.plans_run == before.plans_run + 1
    assert after.ops_run == before.ops_run + 2
    assert after.bytes_recycled == before.bytes_recycled + 64
    assert after.bytes_held == before.bytes_held
    assert after.bytes_allocated == before.bytes_allocated


class TestState:
    def test_variables(self):
        total, count = gt.Variable([0.0, 0.0]), gt.Variable(0)

        @gt.function
        def add(x):
            count.assign_add(1)
            return total.assign_add(x).value * 2.0

        (found,) = often(add, A([1.0, 2.0]))
        done = int(count)
        assert total.value.tolist() == [1.0 * done, 2.0 * done]
        assert add(A([1.0, 1.0])).tolist() == [2.0 * done + 2.0, 4.0 * done + 2.0]
        assert int(count) == done + 1
        assert found.calls

    def test_a_value_read_before_stays(self):
        v = gt.Variable([1.0])

        @gt.function
        def double():
            v.assign(v.value * 2.0)

        often(double)
        v.assign([1.0])
        before = v.value
        double()
        assert before.tolist() == [1.0]
        assert v.value.tolist() == [2.0]

    def test_assignments_elsewhere_are_seen(self):
        v = gt.Variable([1.0])
        f = gt.function(lambda x: v * x)
        often(f, A([1.0]))
        v.assign([5.0])
        assert f(A([2.0])).tolist() == [10.0]
        v.assign_add([1.0])  # pending
        assert f(A([2.0])).tolist() == [12.0]

    def test_gradients_through_a_variable_assigned_natively(self):
        v = gt.Variable([1.0])

        @gt.function
        def grow():
            v.assign(v.value + 1.0)

        often(grow)
        before = float(v.value[0])
        with gt.GradientTape() as tape:
            y = gt.sum(v * v)
        assert tape.gradient(y, v).tolist() == [2.0 * before]

    def test_a_tensor_changed_in_place(self):
        t = A([1.0, 2.0])
        f = gt.function(lambda x: x * t)
        often(f, A([1.0, 1.0]))
        t += 1.0
        assert f(A([1.0, 1.0])).tolist() == [2.0, 3.0]

    def test_a_tensor_replaced(self):
        held = {"t": A([1.0])}
        f = gt.function(lambda x: x * held["t"])
        often(f, A([1.0]))
        held["t"] = A([3.0])
        assert f(A([1.0])).tolist() == [3.0]

    def test_names_that_mean_something_else(self):
        factor = 2.0
        f = gt.function(lambda x: x * factor)
        assert often(f, A([1.0]))
        factor = 3.0
        assert f(A([1.0])).tolist() == [3.0]
        assert often(f, A([1.0]))
        calls = direct_calls(f)
        for factor in (2.0, 3.0):
            assert f(A([1.0])).tolist() == [factor]
        assert direct_calls(f) > calls

    def test_random_numbers_stay_with_python(self):
        f = gt.function(lambda x: x + gt.random.normal((2,)))
        assert not often(f, A([0.0, 0.0]))
        assert f(A([0.0, 0.0])).tolist() != f(A([0.0, 0.0])).tolist()


class Scale:
    def __init__(self, factor):
        self.factor = gt.Variable(factor)

    @gt.function
    def apply(self, x):
        return self.factor * x


class TestMethods:
    def test_each_instance_is_itself(self):
        one, two = Scale(2.0), Scale(3.0)
        assert len(often(one.apply, A([1.0]))) == 1
        assert len(often(two.apply, A([1.0]))) == 2
        assert one.apply(A([1.0])).tolist() == [2.0]
        assert two.apply(A([1.0])).tolist() == [3.0]

    def test_an_instance_is_not_kept_and_not_mixed_up(self):
        for factor in range(20):
            scale = Scale(float(factor))
            often(scale.apply, A([1.0]))
            assert scale.apply(A([1.0])).tolist() == [factor]
            reference = weakref.ref(scale)
            del scale
            gc.collect()
            assert reference() is None


class TestWhoWantsToSeeOps:
    def setup_method(self):
        self.f = gt.function(lambda x: gt.sum(gt.sin(x)))
        self.x = A([0.0, 1.0])
        assert often(self.f, self.x)

    def test_a_tape(self):
        with gt.GradientTape() as tape:
            tape.watch(self.x)
            y = self.f(self.x)
        np.testing.assert_allclose(tape.gradient(y, self.x).numpy(), np.cos([0.0, 1.0]))

    def test_transforms(self):
        found = gt.grad(self.f)(self.x)
        np.testing.assert_allclose(found.numpy(), np.cos([0.0, 1.0]))
        found = gt.vmap(self.f)(A([[0.0, 1.0], [2.0, 3.0]]))
        np.testing.assert_allclose(found.numpy(), np.sin([[0.0, 1.0], [2.0, 3.0]]).sum(1))

    def test_another_function(self):
        g = gt.function(lambda x: self.f(x) * 2.0)
        assert often(g, self.x)
        np.testing.assert_allclose(float(g(self.x)), 2.0 * np.sin(1.0))

    def test_debug_modes(self):
        with gt.eager():
            before = gt.counters().plans_run
            self.f(self.x)
            assert gt.counters().plans_run == before + 2
        f = gt.function(lambda x: gt.log(x))
        often(f, A([1.0]))
        with pytest.raises(gt.errors.NonFiniteError), gt.debug_nans():
            f(A([0.0]))

    def test_forward_accumulation(self):
        found = gt.jvp(self.f, (self.x,), (A([1.0, 1.0]),))[1]
        np.testing.assert_allclose(float(found), np.cos([0.0, 1.0]).sum())


class TestOtherCalls:
    def test_shapes_dtypes_and_names(self):
        f = gt.function(lambda x, y=1.0: x * y)
        often(f, A([1.0]), 2.0)
        assert f(A([1.0, 2.0]), 2.0).tolist() == [2.0, 4.0]
        assert f(A([1], dtype="int64"), 2.0).tolist() == [2.0]
        assert f(A([3.0])).tolist() == [3.0]
        assert f(A([3.0]), y=3.0).tolist() == [9.0]
        assert f(x=A([3.0]), y=3.0).tolist() == [9.0]
        assert f(np.array([3.0]), 3.0).tolist() == [9.0]
        with pytest.raises(TypeError):
            f(A([1.0]), 2.0, 3.0)

    def test_pending_arguments(self):
        f = gt.function(lambda x: x * 2.0)
        often(f, A([1.0]))
        assert f(A([1.0]) + 1.0).tolist() == [4.0]

    def test_dictionaries_in_another_order_or_with_other_keys(self):
        f = gt.function(lambda d: sum(value * (n + 1.0) for n, value in enumerate(d.values())))
        often(f, {"a": A([1.0]), "b": A([2.0])})
        assert f({"a": A([1.0]), "b": A([2.0])}).tolist() == [5.0]
        assert f({"b": A([2.0]), "a": A([1.0])}).tolist() == [4.0]
        assert f({"a": A([1.0]), "c": A([2.0])}).tolist() == [5.0]
        assert f({"a": A([1.0])}).tolist() == [1.0]

    @pytest.mark.filterwarnings("ignore:gt.function. .* has been captured")
    def test_many_kinds(self):
        f = gt.function(lambda x: x * 2.0)
        for size in range(1, 15):
            often(f, A(np.ones(size)))
        for size in range(1, 15):
            assert f(A(np.ones(size))).tolist() == [2.0] * size

    def test_static_names_stay_static(self):
        f = gt.function(lambda x, n: x * n, static_argnames="n")
        often(f, A([1.0]), 2.0)
        assert f(A([1.0]), 3.0).tolist() == [3.0]

    def test_errors_are_those_of_python(self):
        f = gt.function(lambda x, r: x * (1.0 / r))
        assert often(f, A([1.0]), 2.0)
        with pytest.raises(ZeroDivisionError):
            f(A([1.0]), 0.0)
        assert f(A([1.0]), 4.0).tolist() == [0.25]

    def test_another_default_dtype(self):
        f = gt.function(lambda x: x + gt.zeros(1))
        x = A([1], dtype="int32")
        often(f, x)
        assert f(x).dtype == np.float64
        gt.set_default_dtype("float32")
        try:
            assert f(x).dtype == (x + gt.zeros(1)).dtype
        finally:
            gt.set_default_dtype("float64")
        assert f(x).dtype == np.float64


def test_threads_have_their_own():
    f = gt.function(lambda x: x * 2.0)
    often(f, A([1.0]))
    wrong = []

    def work(number):
        for _ in range(3 * calls_before_native()):
            if f(A([float(number)])).tolist() != [2.0 * number]:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert f(A([1.0])).tolist() == [2.0]


def test_a_call_inside_a_call():
    """What a finaliser does while a call of the same kind is under way."""
    v = gt.Variable([0.0])
    f = gt.function(lambda x: v.assign_add(x).value)
    often(f, A([1.0]))
    v.assign([0.0])
    seen = []

    tensor = v._handle
    weakref.finalize(tensor, lambda: seen.append(f(A([10.0])).tolist()))
    del tensor
    assert f(A([1.0])).tolist() == [1.0]
    gc.collect()
    assert seen
    assert v.value.tolist() == [11.0]


def test_nothing_is_left_behind():
    v = gt.Variable([0.0])
    f = gt.function(lambda p, x: (v.assign(x).value, p["w"] + x))
    p, x = {"w": A([1.0])}, A([1.0])
    often(f, p, x)
    assert least_growth(lambda: f(p, x), 100, enough=5) <= 5


def test_a_loop_that_keeps_its_length_is_one_native_call():
    @gt.function
    def root(x):
        guess = x
        while gt.abs(guess * guess - x) > 1e-9:
            guess = 0.5 * (guess + x / guess)
        return guess

    two = A(2.0)
    for _ in range(4 * calls_before_native() + 80):
        root(two)
        gt.wait_for_compiler()
    before = direct_calls(root)
    assert before > 0
    assert float(root(two)) == pytest.approx(2**0.5)
    assert direct_calls(root) == before + 1
    # Another number of steps is left to Python, before anything has changed.
    for value in (0.25, 300.0, 2.0, 1e6, 9.0):
        assert float(root(A(value))) == pytest.approx(value**0.5)
    assert float(root(two)) == pytest.approx(2**0.5)


def test_a_joined_path_that_misses_often_is_given_up():
    total = gt.Variable(0.0)

    @gt.function(recheck=False)
    def step(x):
        if x > 0:
            total.assign_add(x)
        else:
            total.assign_sub(2.0 * x)
        return total * 1.0

    expected = 0.0
    values = [1.0] * (4 * calls_before_native() + 80) + [-1.0] * 400 + [1.0, -1.0] * 20
    for value in values:
        expected += value if value > 0 else -2.0 * value
        assert float(step(A(value))) == expected
        gt.wait_for_compiler()
    assert float(total.value) == expected
