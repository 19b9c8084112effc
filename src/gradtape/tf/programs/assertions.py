"""Assertions about tensors: `tf.debugging`. They compute values, and raise at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import numpy as np

from gradtape.errors import ArgumentError, DtypeError, ShapeError
from gradtape.libraries import check_exports
from gradtape.tf.base.conversion import common, convert
from gradtape.tf.base.dispatch import documented, effect, named_in
from gradtape.tf.base.dtypes import as_dtype
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import Array, DTypeLike, IntLike, Name, TensorLike

__all__ = [
    "Assert",
    "assert_all_finite",
    "assert_equal",
    "assert_greater",
    "assert_greater_equal",
    "assert_integer",
    "assert_less",
    "assert_less_equal",
    "assert_near",
    "assert_negative",
    "assert_non_negative",
    "assert_non_positive",
    "assert_none_equal",
    "assert_positive",
    "assert_rank",
    "assert_rank_at_least",
    "assert_rank_in",
    "assert_scalar",
    "assert_shapes",
    "assert_type",
    "check_numerics",
    "is_numeric_tensor",
]


def _refuse(message: str | None, sentence: str) -> NoReturn:
    raise ArgumentError(f"{message}. {sentence}" if message else sentence)


def _first(array: Array) -> str:
    return str(np.asarray(array).reshape(-1)[:3].tolist())


def _pairwise(symbol: str, compare: Callable[..., Any], example: str) -> Callable[..., None]:
    """A row for an assertion about the elements of two tensors."""
    own = named_in(example)

    def check(
        x: TensorLike,
        y: TensorLike,
        message: str | None = None,
        summarize: object = None,
        name: Name = None,
    ) -> None:
        a, b = (each.read() for each in common([x, y], own))
        if not np.all(compare(a, b)):
            _refuse(
                message,
                f"Condition x {symbol} y did not hold. First elements of x: {_first(a)}, of y: "
                f"{_first(b)}.",
            )

    sentence = f"Raise unless x {symbol} y for all elements."
    return effect(documented(check, __name__, sentence, example))


def _single(symbol: str, compare: Callable[..., Any], example: str) -> Callable[..., None]:
    """A row for an assertion about the signs of elements."""

    def check(
        x: TensorLike, message: str | None = None, summarize: object = None, name: Name = None
    ) -> None:
        a = convert(x).read()
        if not np.all(compare(a, 0)):
            _refuse(
                message,
                f"Condition x {symbol} 0 did not hold element-wise. First elements: {_first(a)}.",
            )

    sentence = f"Raise unless x {symbol} 0 for all elements."
    return effect(documented(check, __name__, sentence, example))


assert_equal = _pairwise("==", np.equal, "tf.debugging.assert_equal([1, 2], [1, 2])")
assert_none_equal = _pairwise("!=", np.not_equal, "tf.debugging.assert_none_equal([1, 2], [3, 4])")
assert_less = _pairwise("<", np.less, "tf.debugging.assert_less(1, 2)")
assert_less_equal = _pairwise("<=", np.less_equal, "tf.debugging.assert_less_equal(1, 1)")
assert_greater = _pairwise(">", np.greater, "tf.debugging.assert_greater(2, 1)")
assert_greater_equal = _pairwise(">=", np.greater_equal, "tf.debugging.assert_greater_equal(1, 1)")
assert_positive = _single(">", np.greater, "tf.debugging.assert_positive(1)")
assert_negative = _single("<", np.less, "tf.debugging.assert_negative(-1)")
assert_non_negative = _single(">=", np.greater_equal, "tf.debugging.assert_non_negative(0)")
assert_non_positive = _single("<=", np.less_equal, "tf.debugging.assert_non_positive(0)")


@effect
def assert_near(
    x: TensorLike,
    y: TensorLike,
    rtol: float | None = None,
    atol: float | None = None,
    message: str | None = None,
    summarize: object = None,
    name: Name = None,
) -> None:
    """Raise unless |x - y| <= atol + rtol |y| for all elements; both are 10 epsilon by default.

    >>> tf.debugging.assert_near(1.0, 1.0 + 1e-7)
    """
    first, second = common([x, y], "assert_near")
    a, b = first.read(), second.read()
    limit = 10 * np.finfo(a.dtype).eps
    rtol, atol = (limit if t is None else float(t) for t in (rtol, atol))
    if not np.all(np.abs(a - b) <= atol + rtol * np.abs(b)):
        _refuse(
            message,
            f"x and y are not equal to tolerance rtol = {rtol}, atol = {atol}. First elements of "
            f"x: {_first(a)}, of y: {_first(b)}.",
        )


@effect
def assert_all_finite(x: TensorLike, message: str, name: Name = None) -> Tensor:
    """Raise if there is NaN or infinity; return the tensor.

    >>> tf.debugging.assert_all_finite([1.0], "loss").numpy().tolist()
    [1.0]
    """
    x = convert(x)
    array = x.read()
    if np.isnan(array).any():
        _refuse(message, "Tensor had NaN values.")
    if np.isinf(array).any():
        _refuse(message, "Tensor had Inf values.")
    return x


@effect
def check_numerics(tensor: TensorLike, message: str, name: Name = None) -> Tensor:
    """Raise if there is NaN or infinity; return the tensor.

    >>> tf.debugging.check_numerics([1.0], "loss").numpy().tolist()
    [1.0]
    """
    return assert_all_finite(tensor, message)


@effect
def assert_rank(
    x: TensorLike, rank: IntLike, message: str | None = None, name: Name = None
) -> None:
    """Raise a ValueError unless the tensor has this many axes.

    >>> tf.debugging.assert_rank([[1]], 2)
    """
    _check_rank(x, lambda result: result == int(rank), f"rank {int(rank)}", message)


@effect
def assert_rank_at_least(
    x: TensorLike, rank: IntLike, message: str | None = None, name: Name = None
) -> None:
    """Raise a ValueError unless the tensor has this many axes or more.

    >>> tf.debugging.assert_rank_at_least([[1]], 1)
    """
    _check_rank(x, lambda result: result >= int(rank), f"rank at least {int(rank)}", message)


@effect
def assert_rank_in(
    x: TensorLike, ranks: Iterable[IntLike], message: str | None = None, name: Name = None
) -> None:
    """Raise a ValueError unless the number of axes is one of these.

    >>> tf.debugging.assert_rank_in([[1]], (1, 2))
    """
    allowed = [int(rank) for rank in ranks]
    _check_rank(x, lambda result: result in allowed, f"rank in {allowed}", message)


def _check_rank(
    tensor: TensorLike, holds: Callable[[int], bool], what: str, message: str | None
) -> None:
    x = convert(tensor)
    if not holds(x.ndim):
        prefix = f"{message}. " if message else ""
        raise ShapeError(
            f"{prefix}Tensor must have {what}. Received rank {x.ndim}, shape {x.shape}."
        )


@effect
def assert_scalar(tensor: TensorLike, message: str | None = None, name: Name = None) -> Tensor:
    """Raise a ValueError unless the tensor has no axes; return it.

    >>> tf.debugging.assert_scalar(1.0).numpy().item()
    1.0
    """
    assert_rank(tensor, 0, message)
    return convert(tensor)


@effect
def assert_type(
    tensor: TensorLike, tf_type: DTypeLike, message: str | None = None, name: Name = None
) -> None:
    """Raise a TypeError unless the tensor has this dtype.

    >>> tf.debugging.assert_type([1.0], tf.float32)
    """
    result = convert(tensor).dtype
    if result != as_dtype(tf_type):
        prefix = f"{message}. " if message else ""
        raise DtypeError(f"{prefix}tensor must be of type {as_dtype(tf_type)!r}; got {result!r}.")


@effect
def assert_integer(x: TensorLike, message: str | None = None, name: Name = None) -> None:
    """Raise a TypeError unless the tensor holds integers.

    >>> tf.debugging.assert_integer([1])
    """
    result = convert(x).dtype
    if not result.is_integer:
        raise DtypeError(
            f"{message + '. ' if message else ''}the tensor must hold integers, not {result!r}."
        )


@effect
def assert_shapes(
    shapes: Mapping[Any, Any] | Iterable[tuple[Any, Any]],
    data: object = None,
    summarize: object = None,
    message: str | None = None,
    name: Name = None,
) -> None:
    """Raise a ValueError unless tensors have these shapes; equal letters stand for equal lengths.

    >>> tf.debugging.assert_shapes([(tf.zeros([2, 3]), ("N", "D")), (tf.zeros([3]), ("D",))])
    """
    pairs = shapes.items() if isinstance(shapes, Mapping) else shapes
    known: dict[str, int] = {}
    for tensor, wanted in pairs:
        result = convert(tensor).spec.shape
        symbols = list(wanted) if hasattr(wanted, "__iter__") else [wanted]
        if len(symbols) != len(result):
            raise ShapeError(
                f"{message or 'assert_shapes'}: shape {result} does not fit {symbols}."
            )
        for symbol, length in zip(symbols, result, strict=True):
            if symbol is None:
                continue
            text = str(symbol)
            expected = int(text) if text.isdigit() else known.setdefault(text, length)
            if expected != length:
                raise ShapeError(
                    f"{message or 'assert_shapes'}: a tensor of shape {result} has {length} where "
                    f"{symbol!r} is {expected}."
                )


def is_numeric_tensor(tensor: object) -> bool:
    """Whether something is a tensor of numbers.

    >>> tf.debugging.is_numeric_tensor(tf.constant(1.0)), tf.debugging.is_numeric_tensor("a")
    (True, False)
    """
    return hasattr(tensor, "enter") and convert(tensor).dtype.kind in "iufc"


@effect
def Assert(  # noqa: N802 - TensorFlow's name
    condition: TensorLike, data: Iterable[object], summarize: object = None, name: Name = None
) -> None:
    """Raise an error that shows the data unless the condition holds.

    >>> tf.debugging.Assert(tf.reduce_all([True]), ["all hold"])
    """
    if not bool(convert(condition)):
        shown = [_first(convert(x).read()) if hasattr(x, "enter") else repr(x) for x in data]
        _refuse(None, f"Expected the condition to be true. Summarized data: {', '.join(shown)}.")


check_exports(globals(), __all__)
