"""gt.function: what is given to it and what it gives, in every kind of nest and of place."""

import collections
import dataclasses
import functools
import math

import numpy as np
import pytest
from tests.jit.agreement import Runs, agrees, counted, stateless, tensors

import gradtape as gt

A = gt.asarray
Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Point:
    x: object
    y: object


@gt.function
def of_the_module(x):
    return x + 1.0


class Registered:
    def __init__(self, inside):
        self.inside = inside


gt.register_pytree(Registered, lambda r: ((r.inside,), None), lambda _, c: Registered(*c))


@pytest.mark.parametrize(
    ("make", "read"),
    [
        (lambda a, b: [a, b], lambda n: n[0] * n[1]),
        (lambda a, b: (a, [b]), lambda n: n[0] * n[1][0]),
        (lambda a, b: {"a": a, "b": b}, lambda n: n["a"] * n["b"]),
        (lambda a, b: collections.OrderedDict(a=a, b=b), lambda n: n["a"] * n["b"]),
        (lambda a, b: collections.defaultdict(list, a=a, b=b), lambda n: n["a"] * n["b"]),
        (Pair, lambda n: n.first * n.second),
        (Point, lambda n: n.x * n.y),
        (lambda a, b: Registered([a, b]), lambda n: n.inside[0] * n.inside[1]),
        (lambda a, b: {"p": Pair(a, None), 3: [(b,)]}, lambda n: n["p"].first * n[3][0][0]),
    ],
    ids=["list", "tuple", "dict", "ordered", "default", "named", "dataclass", "registered", "deep"],
)
def test_nests_in_and_out(make, read):
    calls = [(make(A(a), A(b)),) for a, b in ((1.0, 2.0), (3.0, 4.0), (5.0, 6.0))]
    found = agrees(stateless(lambda nest: (read(nest), nest)), calls, frozen=True)
    assert found.runs == 1


@pytest.mark.parametrize("make", [lambda a: [a], lambda a: {"a": [a]}, lambda a: Point(a, [a])])
def test_containers_are_returned_as_they_are(make):
    outside = [1.0]

    def f(nest, x):
        own = [x * 2.0]
        return nest, own, (own, nest), outside

    compiled = gt.function(f)
    given = [make(A(value)) for value in (1.0, 2.0, 3.0)]
    with pytest.warns(UserWarning, match="Return a copy"):
        found = [compiled(nest, A(2.0)) for nest in given]
    for nest, (same, own, (own_again, again), known) in zip(given, found, strict=True):
        assert nest is same is again
        assert own is own_again
        assert known is outside
        assert float(own[0]) == 4.0


def test_the_class_of_a_nest_is_kept():
    f = gt.function(lambda x: (Point(x, 1), Pair(x, [None]), collections.OrderedDict(b=x, a=x)))
    for value in (1.0, 2.0):
        point, pair, ordered = f(A(value))
        assert type(point) is Point
        assert type(pair) is Pair
        assert pair.second == [None]
        assert type(ordered) is collections.OrderedDict
        assert list(ordered) == ["b", "a"]


def test_what_is_no_tensor_is_returned_as_it_is():
    f = gt.function(lambda x: (x, 1, "s", None, 2.5, True))
    for value in (1.0, 2.0):
        x, one, text, nothing, number, flag = f(A(value))
        assert float(x) == value
        assert (one, text, nothing, number, flag) == (1, "s", None, 2.5, True)


def test_objects_that_may_differ_are_returned_by_python():
    f = gt.function(lambda x: (x, [np.arange(3)]))
    with pytest.warns(UserWarning, match="an object of class ndarray"):
        found = [f(A(value)) for value in (1.0, 2.0)]
    (_, (first,)), (_, (second,)) = found
    first[0] = 7
    assert second.tolist() == [0, 1, 2]


def test_nothing_in_and_nothing_out():
    v = gt.Variable(1.0)
    f = gt.function(lambda: v.assign_add(1.0) and None)
    for _ in range(3):
        assert f() is None
    assert float(v) == 4.0


def test_numpy_arrays_and_scalars_are_tensors():
    f, runs = counted(lambda x, n: gt.sum(x) * n)
    compiled = gt.function(f)
    for n in range(4):
        given = np.arange(3.0) + n
        assert float(compiled(given, np.float64(n))) == given.sum() * n
    assert len(runs) == 2


def test_an_array_that_changes_later_changes_nothing():
    f = gt.function(lambda x: x)
    array = np.ones(2)
    f(array)
    found = f(array)
    array += 5.0
    assert found.tolist() == [1.0, 1.0]


def test_new_shapes_and_dtypes():
    f, runs = counted(lambda x: gt.sum(x * x))
    compiled = gt.function(f)
    for n in (2, 3, 2, 3):
        for dtype in (np.float32, np.float64):
            found = compiled(np.ones(n, dtype))
            assert float(found) == n
            assert found.dtype == dtype
    assert len(runs) == 8


def test_empty_and_0d_and_bool_and_complex():
    def f(x):
        return x + x if x.dtype != gt.bool else ~x

    for dtype in ("bool", "int8", "uint16", "float32", "complex64", "complex128"):
        for shape in ((), (0,), (2, 0, 3), (3,)):
            given = np.ones(shape, dtype)
            compiled = gt.function(f)
            for _ in range(3):
                found = compiled(given)
                expected = f(A(given)).numpy()
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(found.numpy(), expected)


class TestPlaces:
    """Positional, by keyword, by default: one kind of call."""

    @staticmethod
    def make():
        runs = Runs()
        note = runs.note

        @gt.function
        def f(x, rate=0.5, *rest, flag=True, scale=2.0, **more):
            note()
            y = x * rate * scale if flag else x
            return y + sum(rest) + sum(more.values())

        return f, runs

    def test_one_capture_for_all_ways_to_say_it(self):
        f, runs = self.make()
        x = A(3.0)
        calls = [
            f(x), f(x, 0.5), f(x, rate=0.5), f(x=x), f(rate=0.5, x=x),
            f(x, flag=True, scale=2.0), f(x, scale=2.0, flag=True), f(x, 0.5, scale=2.0),
        ]  # fmt: skip
        assert [float(y) for y in calls] == [3.0] * 8
        assert len(runs) == 2
        assert float(f(x, 1.0)) == 6.0
        assert float(f(x, scale=4.0)) == 6.0
        # Each number had one value at first, and is an input once it had two.
        assert len(runs) == 4

    def test_more_of_both_kinds(self):
        f, runs = self.make()
        for n in (1.0, 2.0):
            assert float(f(A(1.0), 1.0, n, 2 * n, scale=1.0, extra=A(n))) == 1.0 + 4 * n
        assert len(runs) == 2

    def test_order_of_further_keywords_is_the_callers(self):
        f = gt.function(lambda **parts: list(parts))
        assert f(a=A(1.0), b=A(2.0)) == ["a", "b"]
        assert f(b=A(1.0), a=A(2.0)) == ["b", "a"]

    def test_positional_only(self):
        @gt.function
        def f(x, /, y, *, z=1.0):
            return x + 10 * y + 100 * z

        for n in (1.0, 2.0):
            assert float(f(A(n), y=A(n), z=n)) == 111 * n
            assert float(f(A(n), A(n))) == 11 * n + 100

    @pytest.mark.parametrize(
        "call", [lambda f: f(), lambda f: f(A(1.0), 2.0, x=A(1.0)), lambda f: f(A(1.0), bad=1.0)]
    )
    def test_wrong_calls_are_pythons_own_errors(self, call):
        def f(x, rate=1.0):
            return x * rate

        with pytest.raises(TypeError) as expected:
            call(f)
        with pytest.raises(TypeError) as found:
            call(gt.function(f))
        assert str(found.value) == str(expected.value)

    def test_a_mutable_default_stays_where_it_is(self):
        @gt.function
        def f(x, seen=[]):  # noqa: B006
            seen.append(1)
            return x * len(seen)

        assert float(f(A(2.0))) == 2.0
        assert f.python_function.__defaults__[0] == [1]

    def test_wrappers_with_a_signature_that_is_not_theirs(self):
        def inner(a, b=10.0):
            return a + b

        @functools.wraps(inner)
        def outer(*args):
            return inner(A(100.0), *args)

        f = gt.function(outer)
        for n in (1.0, 2.0):
            assert float(f(A(n))) == 100.0 + n


class TestCallables:
    def test_methods_of_all_kinds(self):
        class Model:
            factor = 2.0

            def __init__(self, weight):
                self.w = gt.Variable(weight)

            @gt.function
            def plain(self, x, *, scale=1.0):
                return self.w * x * scale

            @classmethod
            @gt.function
            def outer_class(cls, x):
                return cls.factor * x

            @gt.function
            @classmethod
            def inner_class(cls, x):
                return cls.factor * x

            @staticmethod
            @gt.function
            def outer_static(x):
                return 3.0 * x

            @gt.function
            @staticmethod
            def inner_static(x):
                return 3.0 * x

            @property
            @gt.function
            def doubled(self):
                return self.w * 2.0

            @gt.function
            def __call__(self, x):
                return self.w + x

        a, b = Model(2.0), Model(5.0)
        for n in (1.0, 4.0):
            x = A(n)
            assert float(a.plain(x)) == 2.0 * n
            assert float(b.plain(x, scale=10.0)) == 50.0 * n
            assert float(Model.plain(b, x)) == 5.0 * n
            for f in (Model.outer_class, a.outer_class, Model.inner_class, b.inner_class):
                assert float(f(x)) == 2.0 * n
            for f in (Model.outer_static, a.outer_static, Model.inner_static, b.inner_static):
                assert float(f(x)) == 3.0 * n
            assert float(a.doubled) == 4.0
            assert float(b(x)) == 5.0 + n
        a.w.assign(-1.0)
        assert float(a.plain(A(1.0))) == -1.0

    def test_a_bound_method_is_a_function_too(self):
        class Model:
            @gt.function
            def f(self, x):
                """Doc."""
                return x * 2.0

        model = Model()
        model.f(A(1.0))
        assert model.f.__doc__ == "Doc."
        assert model.f.__name__ == "f"
        assert model.f == model.f
        assert "1 kind of calls" in model.f.explain()
        assert "multiply" in str(model.f.program(A(1.0)))
        assert float(model.f.python_function(A(1.0))) == 2.0

    def test_instances_are_not_kept_alive(self):
        import gc
        import weakref

        class Model:
            @gt.function
            def f(self, x):
                return x * 2.0

        model = Model()
        model.f(A(1.0))
        there = weakref.ref(model)
        del model
        gc.collect()
        assert there() is None

    def test_callable_objects_partials_and_lambdas(self):
        class Scale:
            def __call__(self, x):
                return x * 2.0

        for f in (Scale(), functools.partial(lambda k, x: x * k, 2.0), lambda x: 2.0 * x):
            compiled = gt.function(f)
            for n in (1.0, 3.0):
                assert float(compiled(A(n))) == 2.0 * n

    def test_with_and_without_parentheses(self):
        @gt.function
        def a(x):
            return x + 1.0

        @gt.function()
        def b(x):
            return x + 1.0

        @gt.function(dynamic_ints=True)
        def c(x):
            return x + 1.0

        assert [float(f(A(1.0))) for f in (a, b, c)] == [2.0] * 3
        assert a.__name__ == "a"
        with pytest.raises(TypeError, match="not callable"):
            gt.function(3)

    def test_copies_and_pickles(self):
        import copy
        import pickle

        class Model(gt.nn.Module):
            def __init__(self):
                self.w = gt.Variable(2.0)
                self.step = gt.function(self.call)

            def call(self, x):
                return self.w * x

        model = Model()
        assert float(model.step(A(3.0))) == 6.0
        other = copy.deepcopy(model)
        other.w.assign(10.0)
        assert float(other.step(A(3.0))) == 30.0
        assert float(model.step(A(3.0))) == 6.0
        assert pickle.loads(pickle.dumps(of_the_module)) is of_the_module
        again = pickle.loads(pickle.dumps(gt.function(gt.nn.relu, dynamic_ints=True)))
        assert float(again(A(-1.0))) == 0.0

    def test_options_are_keyword_only(self):
        with pytest.raises(TypeError):
            gt.function(lambda x: x, ("x",))


class TestClosures:
    def test_variables_by_reference(self):
        v = gt.Variable(2.0)
        f, runs = counted(lambda x: v * x)
        compiled = gt.function(f)
        assert float(compiled(A(3.0))) == 6.0
        v.assign(5.0)
        assert float(compiled(A(3.0))) == 15.0
        assert len(runs) == 2

    def test_a_tensor_that_was_read_from_a_variable_does_not_follow_it(self):
        v = gt.Variable(2.0)
        before = v.value
        f = gt.function(lambda x: x * v + 100.0 * before)
        assert float(f(A(1.0))) == 202.0
        v.assign(5.0)
        assert float(f(A(1.0))) == 205.0

    def test_tensors_that_are_rebound_in_place(self):
        t = A([1.0, 2.0])
        f, runs = counted(lambda x: t * x)
        compiled = gt.function(f)
        assert compiled(A(2.0)).tolist() == [2.0, 4.0]
        t += 1.0
        assert compiled(A(2.0)).tolist() == [4.0, 6.0]
        t[0] = 10.0
        assert compiled(A(2.0)).tolist() == [20.0, 6.0]
        assert len(runs) == 2

    def test_the_same_tensor_as_argument_and_from_outside(self):
        t = A(3.0)
        f = gt.function(lambda x: x * 10.0 + t)
        assert float(f(t)) == 33.0
        assert float(f(A(1.0))) == 13.0

    def test_the_same_tensor_twice(self):
        f = gt.function(lambda a, b: a - 2.0 * b)
        x = A(1.0)
        assert float(f(x, x)) == -1.0
        assert float(f(x, A(3.0))) == -5.0

    def test_variables_as_arguments(self):
        f, runs = counted(lambda v, x: v.assign_add(x) * 2.0)
        compiled = gt.function(f)
        a, b = gt.Variable(1.0), gt.Variable(10.0)
        assert float(compiled(a, A(1.0))) == 4.0
        assert float(compiled(b, A(1.0))) == 22.0
        assert float(compiled(a, A(2.0))) == 8.0
        assert (float(a), float(b)) == (4.0, 11.0)
        assert len(runs) == 3


class TestStatic:
    def test_strings_bools_and_none(self):
        def f(x, how, flag=None):
            return x + 1.0 if how == "up" and flag else x - 1.0

        call = [(A(1.0), "up", True), (A(1.0), "up", False), (A(2.0), "down")]
        assert agrees(stateless(f), call * 3).runs == 6

    def test_true_is_not_one(self):
        compiled = gt.function(lambda x, n: x + 1.0 if n is True else x)
        found = [float(compiled(A(1.0), n)) for n in (1, True, 1.0, 1, True)]
        assert found == [1.0, 2.0, 1.0, 1.0, 2.0]

    def test_static_argnames(self):
        def f(x, p, q):
            return x * p * q

        inner, runs = counted(f)
        functools.update_wrapper(inner, f)
        compiled = gt.function(inner, static_argnames=("p",))
        # One run for a new value of p, and two with values of q that make it an input.
        for p, q in ((1.0, 2.0), (2.0, 2.0), (1.0, 3.0), (2.0, 5.0), (1.0, 7.0), (2.0, 7.0)):
            assert float(compiled(A(2.0), p, q)) == 2.0 * p * q
            assert float(compiled(A(2.0), p=p, q=q)) == 2.0 * p * q
        assert len(runs) == 6

    def test_static_by_name_may_change_in_place(self):
        f = gt.function(lambda x, parts: x * sum(parts), static_argnames="parts")
        parts = [1, 2]
        assert float(f(A(1.0), parts)) == 3.0
        parts.append(3)
        assert float(f(A(1.0), parts)) == 6.0

    def test_static_arrays_are_compared_by_value(self):
        def f(x, table):
            return x * sum(float(n) for n in table)

        inner, runs = counted(f)
        functools.update_wrapper(inner, f)
        compiled = gt.function(inner, static_argnames="table")
        table = np.array([1.0, 2.0])
        assert float(compiled(A(1.0), table)) == 3.0
        assert float(compiled(A(1.0), table.copy())) == 3.0
        assert len(runs) == 2
        table[0] = 5.0
        assert float(compiled(A(1.0), table)) == 7.0

    def test_static_zeros_have_signs(self):
        f = gt.function(lambda x, z: x * math.copysign(1.0, z), static_argnames="z")
        assert [float(f(A(1.0), z)) for z in (0.0, -0.0, 0.0)] == [1.0, -1.0, 1.0]

    def test_unknown_names(self):
        with pytest.raises(ValueError, match=r"static_argnames \['m'\]"):
            gt.function(lambda x, n: x, static_argnames=("m",))
        gt.function(lambda x, **more: x, static_argnames=("anything",))

    def test_functions_and_objects_are_told_by_being_themselves(self):
        calls = [(A(1.0), gt.sin), (A(1.0), gt.cos), (A(2.0), gt.sin)]
        assert agrees(stateless(lambda x, f: f(x)), calls).runs == 4

    def test_the_default_dtype_is_one_of_the_things_that_count(self):
        f = gt.function(lambda x: gt.asarray([1.0, 2.0]) * x)
        assert f(2.0).dtype == gt.float64
        gt.set_default_dtype("float32")
        try:
            assert f(2.0).dtype == gt.float32
        finally:
            gt.set_default_dtype("float64")
        assert f(2.0).dtype == gt.float64


def test_many_calls_of_many_kinds():
    calls = tensors(1.0, 2.0, [1.0], [[1.0]], 3.0, [5.0], [[6.0]])
    assert agrees(stateless(lambda x: gt.sum(x) * 2.0), calls).runs == 6


def test_none_beside_tensors_in_simple_calls():
    f = gt.function(lambda x, b: -x if b is None else x * b)
    for _ in range(2):
        for b in (None, 2.0, gt.asarray(3.0), None):
            expected = -1.0 if b is None else float(b)
            assert float(f(gt.asarray(1.0), b)) == expected
