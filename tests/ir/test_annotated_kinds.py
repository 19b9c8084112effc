"""Names of annotations that say a range: which numbers they take, and what they refuse."""

import inspect
import math

import numpy as np
import pytest

import gradtape as gt
from gradtape.annotated_kinds import KINDS
from gradtape.argument_checks import check_arguments, checked

NAN, INF = math.nan, math.inf
# Of each kind: good values, values out of range, and values of another type.
RANGES = {
    "Count": ([0, 3, np.int8(2), np.array(2)], [-1, np.int64(-3)], [True, 2.0, "3", None, [2]]),
    "Size": ([1, np.uint8(2)], [0, -1], [True, 1.0, None]),
    "Sizes": ([1, (2, 3), [np.int64(2)], np.array([1, 2])], [0, (1, 0), np.array([1, -1])],
              [True, 2.5, (1.0, 2.0), "33", None]),
    "SizeLike": ([1, np.array(2), gt.asarray(3)], [0, -1], [True, gt.asarray(2.5), 1.0]),
    "CountLike": ([0, gt.asarray(3)], [-1], [np.False_, gt.asarray(True), 0.0]),
    "Finite": ([-1.5, 0, 2, np.float32(1.0)], [NAN, INF, -INF], ["1", None, [1.0], 1j]),
    "NonNegative": ([0, 0.0, 1e-7], [-1e-7, NAN, INF], ["1", None, (1.0,)]),
    "Positive": ([1e-7, 3], [0, -1, NAN, INF], ["1", None]),
    "Bound": ([0.0, 2, INF], [-1, -INF], ["1", None, NAN]),
    "Probability": ([0, 0.5, 1], [-0.1, 1.5, NAN, INF], ["1", None]),
    "Decay": ([0, 0.999], [1, 1.0, -0.1, NAN], ["1", None]),
    "Seed": ([None, 3, -1, gt.random.Generator(0)], [], [True, 2.5, "3", int, [1, 2]]),
}  # fmt: skip
GOOD = [(kind, value) for kind, rows in RANGES.items() for value in rows[0]]
OUTSIDE = [(kind, value) for kind, rows in RANGES.items() for value in rows[1]]
OTHERS = [(kind, value) for kind, rows in RANGES.items() for value in rows[2]]


def function_of(kind):
    def call(number):
        return number

    call.__annotations__["number"] = kind
    return checked(call)


@pytest.mark.parametrize(("kind", "value"), GOOD, ids=repr)
def test_good_values(kind, value):
    assert function_of(kind)(value) is value
    assert function_of(f"{kind} | None")(None) is None


@pytest.mark.parametrize(("kind", "value"), OUTSIDE, ids=repr)
def test_values_out_of_range(kind, value):
    with pytest.raises(ValueError, match=r"^call: number=.* is not .*\. Pass one\.$"):
        function_of(kind)(value)


@pytest.mark.parametrize(("kind", "value"), OTHERS, ids=repr)
def test_values_of_other_types(kind, value):
    with pytest.raises(TypeError, match=r"^call: number=.* is not .*\. Pass one\.$"):
        function_of(kind)(value)


def test_every_range_is_tested():
    ranges = {name for name, kind in KINDS.items() if kind.within is not None}
    assert ranges - {"PerAxis"} == RANGES.keys() - {"Seed"}
    assert KINDS["PerAxis"] is KINDS["Sizes"]


def test_numbers_of_a_captured_call():
    """A deferred number is compared with the range, and each call is checked."""
    lose = gt.function(lambda x, delta: gt.nn.losses.huber(x, 0.0, delta=delta))
    for delta in (0.5, 1.0, 1.5, 2.0):
        assert float(lose(3.0, delta)) == pytest.approx(delta * (3.0 - delta / 2))
    with pytest.raises(ValueError, match=r"huber: delta=-1\.0 is not a finite number above 0"):
        lose(3.0, -1.0)


def test_signatures_from_tables():
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    found = inspect.Signature([inspect.Parameter("rate", kind, annotation="float")])
    check_arguments("Table", found, {"rate": 0.5})
    with pytest.raises(TypeError, match="Table: rate=nan is not a real number"):
        check_arguments("Table", found, {"rate": NAN})
