"""Records behave as the dataclasses that the standard decorator makes."""

import dataclasses
import pickle

import numpy as np
import pytest

import gradtape as gt
from gradtape import records


def plain(decorator):
    @decorator
    class Point:
        x: int
        y: int = 2
        tags: list = dataclasses.field(default_factory=list, compare=False)
        hidden: str = dataclasses.field(default="h", repr=False)

    return Point


def frozen(decorator):
    @decorator(frozen=True)
    class Point:
        x: int
        y: tuple = ()
        total: int = dataclasses.field(init=False, default=0)
        named: int = dataclasses.field(kw_only=True, default=3)

        def __post_init__(self):
            object.__setattr__(self, "total", self.x + len(self.y))

    return Point


def without_equality(decorator):
    @decorator(frozen=True, eq=False, repr=False)
    class Point:
        x: int
        y: int = 0

    return Point


def child(decorator):
    @decorator(frozen=True)
    class Parent:
        x: int

    @decorator(frozen=True)
    class Point(Parent):
        y: int = 1

        def __repr__(self):
            return "own"

    return Point


@pytest.fixture(params=[plain, frozen, without_equality, child])
def both(request):
    return request.param(records.dataclass), request.param(dataclasses.dataclass)


class TestLikeTheStandardOnes:
    def test_fields_and_values(self, both):
        ours, theirs = both
        names = [each.name for each in dataclasses.fields(theirs)]
        assert [each.name for each in dataclasses.fields(ours(1))] == names
        for args in [(1,), (1, (4, 5))]:
            a, b = ours(*args), theirs(*args)
            assert [getattr(a, n) for n in names] == [getattr(b, n) for n in names]

    def test_equality_and_hash(self, both):
        for kind in both:
            a, b, c = kind(1), kind(1), kind(2)
            by_value = kind.__eq__ is not object.__eq__
            assert (a == b, a == c, a == 1) == (by_value, False, False)
        ours, theirs = both
        assert (ours.__hash__ is None) == (theirs.__hash__ is None)
        if ours.__hash__ is not None:
            assert (hash(ours(1)) == hash(ours(1))) == (hash(theirs(1)) == hash(theirs(1)))

    def test_repr(self, both):
        ours, theirs = both
        if theirs.__repr__ is not object.__repr__:
            assert repr(ours(1)) == repr(theirs(1))

    def test_bad_arguments(self, both):
        for kind in both:
            with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
                kind()
            with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
                kind(1, z=2)

    def test_replace(self, both):
        ours, _ = both
        assert dataclasses.replace(ours(1), x=5).x == 5


def test_factories_are_called_each_time():
    kind = plain(records.dataclass)
    assert kind(1).tags is not kind(1).tags


@pytest.mark.parametrize("make", [frozen, without_equality, child])
def test_frozen_ones_never_change(make):
    point = make(records.dataclass)(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    assert point.x == 1


def test_frozen_ones_define_no_assignment():
    @records.dataclass(frozen=True)
    class Point:
        x: int

        def __setattr__(self, name, value):
            pass

    with pytest.raises(TypeError, match="Cannot overwrite attribute __setattr__"):
        Point(1)


def test_nothing_is_compiled_before_the_first_use():
    kind = plain(records.dataclass)
    before = kind.__init__
    kind(1)
    assert kind.__init__ is not before
    assert kind.__init__.__qualname__.endswith("Point.__init__")


@records.dataclass(frozen=True)
class Sent:
    x: int
    y: str = "y"


def test_equality_of_instances_that_were_never_constructed():
    kind = frozen(records.dataclass)
    one, other = (object.__new__(kind) for _ in range(2))
    for each in (one, other):
        vars(each).update(x=1, y=(), total=0, named=3)
    assert one == other
    assert hash(one) == hash(other)


def test_pickle():
    assert pickle.loads(pickle.dumps(Sent(3))) == Sent(3)


def test_methods_call_code_that_imports():
    class Importing:
        def __repr__(self):
            return repr(np.dtype("float64"))

        def __eq__(self, other):
            return __import__("math").pi > 3

        __hash__ = object.__hash__

    @records.dataclass
    class Holder:
        dtype: object
        importing: object

    holder = Holder(np.dtype([("a", "f8")]), Importing())
    assert repr(holder).endswith("Holder(dtype=dtype([('a', '<f8')]), importing=dtype('float64'))")
    assert holder == Holder(np.dtype([("a", "f8")]), Importing())
    saved = gt.saved_for_backward(lambda x: gt.sum(gt.sin(x @ x)), gt.ones((2, 2)))
    assert "float64" in repr(list(saved))
