"""Argument checks name the argument to blame, and leave all other errors alone."""

import inspect
import linecache
import pickle
import types
import warnings

import numpy as np
import pytest

import gradtape as gt
from gradtape.annotated_kinds import kinds_of
from gradtape.argument_checks import REPORT, as_real, checked
from gradtape.jit.captured import Captured

NEVER = object()


def as_module(source):
    """Code whose lines can be read, as those of a module."""
    name = f"<module {abs(hash(source))}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    return compile(source, name, "exec")


def library_function(*, of="gradtape.pretended"):
    """A function that counts as the library's: its globals have the name of one of its modules."""
    names = {"__name__": of}
    source = """
def rows(table: "TensorLike", count: "int" = 1, *, exact: "bool" = False, other=None):
    if count > 100:
        raise ValueError(f"rows: count={count} is more than 100. Choose fewer.")
    for row in other if other is not None else [table]:
        assert row is not None
    return len(table)
"""
    exec(as_module(source), names)
    return names["rows"]


ROWS = checked(library_function())


def test_good_calls():
    assert ROWS([1.0, 2.0]) == 2
    assert ROWS([1.0], np.int64(3), exact=np.True_) == 1
    assert inspect.signature(ROWS) == inspect.signature(library_function())


@pytest.mark.parametrize("wrong", [2.5, True, "3", None, np.ones(2)], ids=str)
def test_arguments_that_are_checked_before(wrong):
    with pytest.raises(TypeError, match=r"^rows: count=.* is not a whole number\. Pass one\.$"):
        ROWS([1.0], wrong)


def test_the_argument_to_blame_is_named():
    with pytest.raises(
        TypeError, match=r"^rows: table=<object .* is not a tensor or numbers\."
    ) as e:
        ROWS(NEVER)
    assert "has no len()" in str(e.value.__cause__)


@pytest.mark.parametrize(("other", "error"), [(3, TypeError), ([None], AssertionError)])
def test_accidents_stay_what_they_are_and_ask_for_a_report(other, error):
    with pytest.raises(error) as found:
        checked(ROWS)([1.0], other=other)
    assert found.value.__cause__ is None
    (note,) = found.value.__notes__
    assert f"an argument of rows (table=[1.0], other={other}) is to blame, it is a bug" in note
    assert found.traceback[-1].name == "rows"


def test_accidents_of_other_kinds():
    names = {"__name__": "gradtape.pretended"}
    exec(as_module("def fail(error): next(error)"), names)
    fail = checked(names["fail"])
    for error in (KeyError("k"), RuntimeError("r"), StopIteration(), ZeroDivisionError()):

        class Failing:
            def __next__(self):
                raise error  # noqa: B023

        with pytest.raises(type(error)) as found:
            fail(Failing())
        # The user's own code raised it.
        assert not hasattr(found.value, "__notes__")
    with pytest.raises(StopIteration) as stopped:
        fail(iter(()))
    assert "please report it" in stopped.value.__notes__[0]


def test_functions_that_are_called_wrongly_are_named():
    with pytest.raises(TypeError, match=r"^scan: f=<function .* is called with other arguments: "):
        gt.scan(lambda: 1.0, 0.0, np.ones(2))


def test_values_without_a_result_are_no_bugs():
    with pytest.raises(np.linalg.LinAlgError) as found:
        gt.linalg.inv(np.zeros((2, 2)))
    assert "report" not in str(getattr(found.value, "__notes__", ""))


def test_a_replay_that_fails_asks_for_a_report(monkeypatch):
    f = gt.function(lambda x: x * 2.0)
    f(gt.asarray([1.0]))

    def fail(*_):
        return {}["a defect"]

    fail = types.FunctionType(fail.__code__, {"__name__": "gradtape.pretended"})
    monkeypatch.setattr(Captured, "run", fail)
    with pytest.raises(KeyError, match="a defect") as found:
        f(gt.asarray([1.0]))
    assert found.value.__notes__ == [REPORT.format("")]


def test_errors_on_purpose_pass():
    with pytest.raises(ValueError, match="is more than 100") as e:
        ROWS([1.0], 101)
    assert e.value.__cause__ is None
    with pytest.raises(TypeError, match="rows: there is no argument 'no'"):
        ROWS([1.0], no=1)


@pytest.mark.parametrize(
    "error", [KeyError("mine"), ValueError("mine"), AssertionError()], ids=repr
)
def test_errors_of_the_users_code_pass(error):
    def fail(*_):
        raise error

    class Failing:
        __len__ = fail

    for call in (lambda: gt.grad(fail)(1.0), lambda: gt.vmap(fail)(np.ones(2)),
                 lambda: gt.scan(fail, 0.0, np.ones(2)), lambda: ROWS(Failing())):  # fmt: skip
        with pytest.raises(type(error)) as found:
            call()
        assert found.value is error


def test_warnings_that_are_errors_pass():
    def warn(x):
        warnings.warn("mine", UserWarning, stacklevel=1)
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="mine"):
            gt.grad(warn)(1.0)


@pytest.mark.parametrize(
    "function", [gt.grad, gt.scan, gt.linalg.svd, gt.fft.fft, gt.random.normal, gt.nn.gelu, gt.tril]
)
def test_functions_can_be_pickled(function):
    assert pickle.loads(pickle.dumps(function)) is function


def test_subclasses_are_named():
    with pytest.raises(TypeError, match=r"^AdamW: beta_1=None is not a number from 0"):
        gt.optimizers.AdamW(beta_1=None)
    with pytest.raises(TypeError, match=r"^Conv2D: "):
        gt.tf.keras.layers.Conv2D(2, 3, padding=3)


def test_unknown_annotations_take_anything():
    assert kinds_of("int | Unknown") == kinds_of(int) == kinds_of("int |") == ()


def test_lists_that_contain_themselves():
    nest = [1.0]
    nest.append(nest)
    deep = [1.0]
    for _ in range(5000):
        deep = [deep]
    for wrong in (nest, deep):
        for f in (gt.sin, gt.sum, gt.asarray, gt.stack, gt.tf.reduce_sum, gt.evaluate):
            with pytest.raises(ValueError, match="contains itself"):
                f(wrong)


@pytest.mark.parametrize("error", [ValueError("mine"), TypeError("mine")])
def test_errors_of_conversions_that_users_write_pass(error):
    class Failing:
        def __array__(self, *_, **__):
            raise error

        def __float__(self):
            raise error

    for call in (lambda: gt.asarray(Failing()), lambda: as_real("f: x", Failing())):
        with pytest.raises(type(error)) as found:
            call()
        assert found.value is error


def test_a_loss_that_cannot_be_computed_is_not_blamed_on_its_type():
    singular = gt.asarray(np.zeros((2, 2)))
    with pytest.raises(gt.errors.MatrixError, match="singular"):
        gt.fit(lambda x: gt.sum(gt.linalg.inv(singular)) * x[0], np.ones((2, 1)), epochs=1)
