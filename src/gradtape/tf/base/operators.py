"""Python's operators on tensors and variables, which must have one dtype.

Two tensors of one dtype, or a tensor and a Python number that its dtype can hold, are passed to
gradtape's function as they are. Everything else is converted first, or refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

import gradtape as gt
from gradtape.errors import DtypeError, ShapeError
from gradtape.interop.numpy_protocols.ufuncs import array_ufunc
from gradtape.libraries import known_value
from gradtape.ops.elementwise import arithmetic, complexes, unary as elementwise
from gradtape.ops.matrices import contraction
from gradtape.tf.base.conversion import common, convert, refuse_mixture
from gradtape.tf.base.dispatch import PLAIN, WithoutValue, graphs
from gradtape.tf.base.errors import InvalidValueError
from gradtape.tf.base.tensor import Tensor
from gradtape.trace.followed_number import plain
from gradtape.trace.recording import state

if TYPE_CHECKING:
    from gradtape.tf.base.types import TensorLike

# Operands are a tensor and a tensor or number, in either order.
Binary: TypeAlias = Callable[[Any, Any], Any]

# Types of Python numbers, and the kinds of dtype that can hold them.
_HOLD = {bool: "biufc", int: "iufc", float: "fc", complex: "c"}
_NUMBERS = frozenset((float, int))


def beside(name: str, tensor: Tensor, other: Any) -> Any:
    """The other operand of a tensor: a number as it is, anything else as a tensor of its dtype."""
    kind = type(plain(other))
    held = _HOLD.get(kind)
    if held is not None:
        if tensor.spec.dtype.kind not in held:
            raise DtypeError(
                f"{name}: Cannot convert {other!r} to a tensor of dtype {tensor.dtype.name}. Use "
                "tf.cast on the tensor first."
            )
        return other
    result = convert(other, hint=tensor.dtype)
    if result.spec.dtype != tensor.spec.dtype:
        refuse_mixture(name, tensor, result)
    return result


def operands(name: str, x: Any, y: Any) -> tuple[Any, Any]:
    """Two operands of one dtype, at least one of them a tensor."""
    if type(x) is not Tensor and not hasattr(x, "enter"):
        if hasattr(y, "enter"):
            y = convert(y)
            return beside(name, y, x), y
        x, y = common([x, y], name)
        return x, y
    x = convert(x)
    return x, beside(name, x, y)


def _refuse(name: str, tensor: Tensor, accepts: str) -> NoReturn:
    raise DtypeError(
        f"{name}: a tensor of dtype {tensor.dtype.name} is not accepted. Use tf.cast to "
        f"{', '.join(_ACCEPTED[kind] for kind in accepts)} first."
    )


_ACCEPTED = {"b": "bool", "i": "int32", "u": "uint8", "f": "float32", "c": "complex64"}


def binary(name: str, function: Binary, accepts: str = "iufc") -> Binary:
    """A function of two operands of one dtype, of a kind that is accepted."""

    takes_floats = "f" in accepts

    def made(otherwise: Binary) -> Any:
        def call(x: Any, y: Any) -> Any:
            if graphs.in_use:
                return graphs.take(otherwise, (x, y), {}, PLAIN)
            if type(x) is Tensor:
                left: Any = x.node or x.computed
                dtype = left.spec.dtype
                kind = type(y)
                if kind is Tensor:
                    right = y.node or y.computed
                    if right.spec.dtype is dtype and dtype.kind in accepts:
                        return function(x, y)
                elif (kind is float or kind is int) and dtype.kind == "f" and takes_floats:
                    return function(x, y)
            elif type(y) is Tensor and type(x) in _NUMBERS:
                number: Any = y.node or y.computed
                if number.spec.dtype.kind == "f" and takes_floats:
                    return function(x, y)
            return otherwise(x, y)

        call.__name__ = call.__qualname__ = otherwise.__name__ = otherwise.__qualname__ = name
        return call

    def checked(x: Any, y: Any) -> Any:
        x, y = operands(name, x, y)
        tensor = x if isinstance(x, Tensor) else y
        if tensor.spec.dtype.kind not in accepts:
            _refuse(name, tensor, accepts)
        return function(x, y)

    def as_method(reflected: str) -> Binary:
        """The operator: objects that are no numbers and define the operator have priority."""

        def or_not(x: Any, y: Any) -> Any:
            try:
                return checked(x, y)
            except (TypeError, ValueError):
                if hasattr(y, reflected) and not isinstance(y, _OPERANDS) and not _is_tensor(y):
                    return NotImplemented
                raise

        return made(or_not)

    result = made(checked)
    result.as_method = as_method
    return result


# Objects that are operands themselves: if these are refused, the error has to say so.
_OPERANDS = (bool, int, float, complex, str, list, tuple, np.ndarray, np.generic)


def _is_tensor(y: object) -> bool:
    return hasattr(y, "enter") or hasattr(y, "__gradtape__") or isinstance(y, WithoutValue)


def widened(x: Any) -> Any:
    """An operand of a division: integers of 32 bits or more as float64, shorter ones as float32."""
    if not isinstance(x, Tensor) or x.spec.dtype.kind not in "iu":
        return x
    return gt.cast(x, np.dtype(np.float64 if x.spec.dtype.itemsize >= 4 else np.float32))


def by_nonzero(function: Binary) -> Binary:
    """A division that refuses integer divisors which are known to be 0, as TensorFlow does."""

    def divide(x: Any, y: Any) -> Any:
        if (x if isinstance(x, Tensor) else y).spec.dtype.kind != "f":
            # A replay of what is captured would have another divisor.
            known = None if state.recording.capturing else known_value(y)
            zero = type(y) is int and y == 0 if known is None else not np.all(known)
            if zero:
                raise InvalidValueError("Integer division by zero. Use floats, or tf.where.")
        return function(x, y)

    return divide


def _power(x: Any, y: Any) -> Tensor:
    if isinstance(y, Tensor) and not isinstance(x, Tensor):
        return arithmetic.power(x, y)
    return arithmetic.pow(x, y)


def _matmul(x: object, y: object) -> Tensor:
    a, b = convert(x), convert(y)
    if a.ndim < 2 or b.ndim < 2:
        raise ShapeError(
            f"matmul: operands of shape {a.shape} and {b.shape}: both need two axes or more. Use "
            "tf.linalg.matvec or tf.tensordot."
        )
    return contraction.matmul(a, b)


def _logical(word: Binary, bits: Binary) -> Binary:
    return lambda x, y: (word if _is_boolean(x, y) else bits)(x, y)


def _is_boolean(x: Any, y: Any) -> bool:
    return (x if isinstance(x, Tensor) else y).spec.dtype.kind == "b"


add = binary("add", arithmetic.add)
subtract = binary("subtract", arithmetic.subtract)
multiply = binary("multiply", arithmetic.multiply)
# For booleans TensorFlow's operator `*` is a logical and; its function `multiply` refuses them.
times = binary("multiply", _logical(arithmetic.logical_and, arithmetic.multiply), "biufc")
truediv = binary("truediv", lambda x, y: arithmetic.divide(widened(x), widened(y)))
floordiv = binary("floordiv", by_nonzero(arithmetic.floor_divide), "iuf")
floormod = binary("floormod", by_nonzero(arithmetic.remainder), "iuf")
power = binary("pow", _power)
matmul = binary("matmul", _matmul)
less = binary("less", arithmetic.less, "iuf")
less_equal = binary("less_equal", arithmetic.less_equal, "iuf")
greater = binary("greater", arithmetic.greater, "iuf")
greater_equal = binary("greater_equal", arithmetic.greater_equal, "iuf")
equal = binary("equal", arithmetic.equal, "biufc")
not_equal = binary("not_equal", arithmetic.not_equal, "biufc")
bitwise_and = binary("and", _logical(arithmetic.logical_and, arithmetic.bitwise_and), "biu")
bitwise_or = binary("or", _logical(arithmetic.logical_or, arithmetic.bitwise_or), "biu")
bitwise_xor = binary("xor", _logical(arithmetic.logical_xor, arithmetic.bitwise_xor), "biu")
left_shift = binary("left_shift", arithmetic.bitwise_left_shift, "iu")
right_shift = binary("right_shift", arithmetic.bitwise_right_shift, "iu")

OPERATORS: dict[str, Any] = {
    "add": add,
    "sub": subtract,
    "mul": times,
    "truediv": truediv,
    "floordiv": floordiv,
    "mod": floormod,
    "pow": power,
    "matmul": matmul,
    "and": bitwise_and,
    "or": bitwise_or,
    "xor": bitwise_xor,
    "lshift": left_shift,
    "rshift": right_shift,
}
COMPARISONS = {"lt": less, "le": less_equal, "gt": greater, "ge": greater_equal}
UNARY = {
    "neg": elementwise.negative,
    "pos": elementwise.positive,
    "abs": complexes.abs,
    "invert": elementwise.bitwise_invert,
}
# In-place operators that a variable refuses, and the method to call instead.
_REFUSED = {
    "iadd": ("+=", "assign_add"),
    "isub": ("-=", "assign_sub"),
    "imul": ("*=", "assign"),
    "itruediv": ("/=", "assign"),
}
# NumPy calls these when an array is the left operand of a tensor.
UFUNCS = {
    np.add: add,
    np.subtract: subtract,
    np.multiply: multiply,
    np.true_divide: truediv,
    np.floor_divide: floordiv,
    np.remainder: floormod,
    np.power: power,
    np.matmul: matmul,
    np.less: less,
    np.less_equal: less_equal,
    np.greater: greater,
    np.greater_equal: greater_equal,
    np.equal: equal,
    np.not_equal: not_equal,
    np.bitwise_and: bitwise_and,
    np.bitwise_or: bitwise_or,
    np.bitwise_xor: bitwise_xor,
}


def _reflected(function: Binary) -> Binary:
    def method(self: object, other: object) -> Tensor:
        return function(other, self)

    return method


def _comparing(function: Binary, otherwise: bool) -> Binary:
    """`==` and `!=` never fail on shapes: operands that do not broadcast are not equal."""

    def method(self: object, other: object) -> Any:
        if other is None or isinstance(other, (str, bytes, dict, type)):
            return NotImplemented
        try:
            return function(self, other)
        except ShapeError:
            return convert(otherwise)

    return method


def _in_place(symbol: str, name: str) -> Callable[[object, object], NoReturn]:
    def method(self: object, other: object) -> NoReturn:
        raise RuntimeError(
            f"`variable {symbol} value` with tf.Variables is not supported. Use "
            f"`variable.{name}(value)` to modify the variable, or `out = variable "
            f"{symbol[:-1]} value` to get a new tensor."
        )

    return method


def _unary(function: Callable[[Any], Tensor]) -> Callable[[object], Tensor]:
    def checked(x: object) -> Tensor:
        return function(x if type(x) is Tensor else convert(x))

    def method(self: object) -> Tensor:
        return graphs.take(checked, (self,), {}, PLAIN) if graphs.in_use else checked(self)

    return method


def install(kind: Any, assignable: bool) -> None:
    """Give a class the operators. In-place ones make new tensors; a variable refuses them.

    The functions themselves are the methods, because one more frame per op would be measurable.
    """
    for name, function in OPERATORS.items():
        method = function.as_method(f"__r{name}__")
        setattr(kind, f"__{name}__", method)
        setattr(kind, f"__r{name}__", _reflected(function))
        if not assignable:
            setattr(kind, f"__i{name}__", method)
    for name, function in COMPARISONS.items():
        setattr(kind, f"__{name}__", function)
    for name, unary in UNARY.items():
        setattr(kind, f"__{name}__", _unary(unary))
    kind.__eq__ = _comparing(equal, False)
    kind.__ne__ = _comparing(not_equal, True)
    kind.__hash__ = object.__hash__
    if assignable:
        for name, (symbol, instead) in _REFUSED.items():
            setattr(kind, f"__{name}__", _in_place(symbol, instead))
    kind.__array_ufunc__ = _array_ufunc


def _array_ufunc(
    self: Any, ufunc: np.ufunc, method: str, *inputs: TensorLike, **options: object
) -> object:
    function = UFUNCS.get(ufunc)
    if method == "__call__" and function is not None and not options:
        return function(*inputs)
    plain = [convert(x) if hasattr(x, "enter") else x for x in inputs]
    return array_ufunc(self, ufunc, method, *plain, **options)


install(Tensor, assignable=False)
