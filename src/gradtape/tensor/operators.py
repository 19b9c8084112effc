"""Operators and methods that Tensor and Variable have in common: each calls a public function."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

import numpy as np

from gradtape.dtypes import DType
from gradtape.errors import ShapeError
from gradtape.ir.hooks import hooks
from gradtape.ir.op import Op
from gradtape.ops.arrays import indexing, joining, movement
from gradtape.ops.elementwise import arithmetic, complexes, unary as elementwise
from gradtape.ops.families.casting import cast
from gradtape.ops.families.signatures import Axes, BinaryFunction, ShapeLike
from gradtape.ops.matrices import contraction
from gradtape.ops.reductions import reduction
from gradtape.suggestions import explain_attributes, without_internals
from gradtape.trace.capturing import note_text
from gradtape.trace.followed_number import FOLLOWED
from gradtape.trace.record import RECORDERS, binary_function, op_of, record
from gradtape.trace.recording import state

if TYPE_CHECKING:
    from gradtape.dtypes import DTypeLike
    from gradtape.tensor.tensor import Tensor
    from gradtape.tensor.tensor_like import TensorLike

    BinaryMethod: TypeAlias = Callable[["Operators", TensorLike], Tensor]

Left = TypeVar("Left")
Decided = TypeVar("Decided", bool, int)


def reflected(function: BinaryFunction) -> BinaryMethod:
    """The method for a tensor that is the right operand."""
    known: BinaryMethod | None = getattr(function, "reflected", None)
    return known or (lambda right, left: function(left, right))


# Classes of right operands that are recorded without a check.
_KNOWN = frozenset((bool, int, float, complex, np.ndarray, np.float64, list, tuple, *FOLLOWED))
_ARRAY_LIKE = ("enter", "__gradtape__", "__array__", "__array_interface__", "__array_struct__")


def is_foreign(other: object, method: str) -> bool:
    """Whether an operator should be left to another library's object and its `method`.

    Numbers and array-likes become tensors. An object that is neither, or that refuses NumPy's
    ufuncs by `__array_ufunc__ = None`, has its turn if its class defines the method.
    """
    kind = type(other)
    # Searched in the classes themselves: `getattr` would find the operators of `type`, too.
    own = any(method in each.__dict__ for each in kind.__mro__[:-1])
    if not own or kind.__module__ == "builtins":
        return False
    if getattr(kind, "__array_ufunc__", kind) is None:
        return True
    return not (
        isinstance(other, (np.ndarray, np.generic, numbers.Number))
        or any(hasattr(other, name) for name in _ARRAY_LIKE)
    )


def operator(op: Op, turned: str) -> BinaryFunction:
    """The method of a binary operator; `turned` is that of the right operand, if it is foreign."""

    def record_or_decline(op: Op, operands: tuple[object, ...]) -> Any:
        right = operands[1]
        if type(right) not in _KNOWN and is_foreign(right, turned):
            return NotImplemented
        return record(op, operands)

    method: Any = binary_function(op, record_or_decline)
    method.__name__ = method.__qualname__ = op.name
    RECORDERS.append(method)
    found: BinaryFunction = method
    return found


class Operators:
    """Python's operators and NumPy's method names, recorded."""

    __slots__ = ()
    # NumPy would apply its operator to each element; with a priority it calls our reflected one.
    __array_priority__ = 1000

    shape: tuple[int, ...]
    dtype: DType

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return hooks.numpy_protocols.array_ufunc(self, ufunc, method, *inputs, **options)

    def __array_function__(self, function: Any, kinds: Any, args: Any, kwargs: Any) -> Any:
        return hooks.numpy_protocols.array_function(self, function, kinds, args, kwargs)

    # The functions themselves: a method that calls one would add a Python frame to every record.
    __add__ = operator(op_of(arithmetic.add), "__radd__")
    __radd__ = arithmetic.add
    __sub__ = operator(op_of(arithmetic.subtract), "__rsub__")
    __rsub__ = reflected(arithmetic.subtract)
    __mul__ = operator(op_of(arithmetic.multiply), "__rmul__")
    __rmul__ = arithmetic.multiply
    __truediv__ = operator(op_of(arithmetic.divide), "__rtruediv__")
    __rtruediv__ = reflected(arithmetic.divide)
    __floordiv__ = operator(op_of(arithmetic.floor_divide), "__rfloordiv__")
    __rfloordiv__ = reflected(arithmetic.floor_divide)
    __mod__ = operator(op_of(arithmetic.remainder), "__rmod__")
    __rmod__ = reflected(arithmetic.remainder)
    __pow__ = arithmetic.power_function(operator(op_of(arithmetic.power), "__rpow__"))
    # Only the exponent makes `pow` more than `power`, and here the exponent is a tensor.
    __rpow__ = reflected(arithmetic.power)
    __matmul__ = operator(contraction.MATMUL, "__rmatmul__")
    __rmatmul__ = reflected(contraction.matmul)
    __and__ = operator(op_of(arithmetic.bitwise_and), "__rand__")
    __rand__ = arithmetic.bitwise_and
    __or__ = operator(op_of(arithmetic.bitwise_or), "__ror__")
    __ror__ = arithmetic.bitwise_or
    __xor__ = operator(op_of(arithmetic.bitwise_xor), "__rxor__")
    __rxor__ = arithmetic.bitwise_xor
    __lshift__ = operator(op_of(arithmetic.bitwise_left_shift), "__rlshift__")
    __rlshift__ = reflected(arithmetic.bitwise_left_shift)
    __rshift__ = operator(op_of(arithmetic.bitwise_right_shift), "__rrshift__")
    __rrshift__ = reflected(arithmetic.bitwise_right_shift)
    __neg__ = elementwise.negative
    __pos__ = elementwise.positive
    __invert__ = elementwise.bitwise_invert
    __abs__ = complexes.abs
    __lt__ = operator(op_of(arithmetic.less), "__gt__")
    __le__ = operator(op_of(arithmetic.less_equal), "__ge__")
    __gt__ = operator(op_of(arithmetic.greater), "__lt__")
    __ge__ = operator(op_of(arithmetic.greater_equal), "__le__")

    def __divmod__(self, other: TensorLike) -> tuple[Tensor, Tensor]:
        return arithmetic.floor_divide(self, other), arithmetic.remainder(self, other)

    def __round__(self, digits: int | None = None) -> Tensor:
        if digits:
            scale = 10.0**digits
            return elementwise.round(arithmetic.multiply(self, scale)) / scale
        return elementwise.round(self)

    def __eq__(self, other: Any) -> Tensor:  # type: ignore[override]
        return NotImplemented if _incomparable(other) else arithmetic.equal(self, other)

    def __ne__(self, other: Any) -> Tensor:  # type: ignore[override]
        return NotImplemented if _incomparable(other) else arithmetic.not_equal(self, other)

    # Equality is element by element, so handles hash by identity, as dictionary keys expect.
    __hash__ = object.__hash__

    def __getitem__(self, key: object) -> Tensor:
        return indexing.get_item(self, key)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len: a 0-d tensor has no length. Use .size or .item().")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise TypeError("iteration over a 0-d tensor. Use .item() or reshape it first.")
        return iter(joining.unstack(self))

    def __contains__(self, item: Any) -> bool:
        return bool(reduction.any(arithmetic.equal(self, item)))

    # Observation: each of these methods computes the pending work of the tensor.

    if TYPE_CHECKING:  # Tensor and Variable each have their own

        def numpy(self) -> np.ndarray:
            """The value as a read-only NumPy array, computed now if it is pending."""

        def _look(self) -> np.ndarray: ...

    def __bool__(self) -> bool:
        return self._decided(bool)

    def __int__(self) -> int:
        return self._left("int", self._decided(int))

    def __float__(self) -> float:
        return self._left("float", float(self._single("float")))

    def __complex__(self) -> complex:
        return self._left("complex", complex(self._single("complex")))

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.shape:
            raise TypeError(
                "only a 0-d integer tensor can be an index, not "
                f"{self.dtype} of shape {self.shape}."
            )
        return self._decided(int)

    def _as_tensor(self) -> Any:
        """This tensor, or the one that a Variable holds."""
        return self

    def _decided(self, kind: type[Decided]) -> Decided:
        """A value that Python is about to act on: in a captured function it becomes a guard."""
        tensor = self._as_tensor()
        recording = tensor.recording
        if recording is None or not recording.capturing:
            recording = state.recording
        if recording.capturing and tensor.size == 1:
            return recording.capturing.decide(tensor, kind, kind.__name__)
        return kind(self._single(kind.__name__))

    def _single(self, name: str) -> Any:
        array = self.numpy()
        if array.size != 1:
            raise ShapeError(
                f"{name}: a tensor of shape {array.shape} has {array.size} elements, not one. "
                "Use gt.any, gt.all or an index to choose one."
            )
        return array.reshape(())[()]

    def _left(self, name: str, number: Left) -> Left:
        """A number that leaves the tensor; tapes that follow the tensor note it."""
        for tape in state.tapes:
            tape.note_number(name, self, number)
        return number

    def item(self) -> Any:
        """The only element, as a Python number."""
        return self._left("item", self._single("item").item())

    def tolist(self) -> Any:
        """The values as nested Python lists."""
        return self._left("tolist", self.numpy().tolist())

    def __format__(self, template: str) -> str:
        """As NumPy's: a 0-d tensor is a number, others take no format."""
        if not self.shape:
            note_text()
            return format(self._look()[()], template)
        if template:
            raise TypeError(
                f"format: {template!r} is for single numbers, and the tensor has shape "
                f"{self.shape}. Format its elements, or use np.array2string(x.numpy())."
            )
        return str(self)

    # Facts of the spec.

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def device(self) -> str:
        """Always "cpu"."""
        return "cpu"

    def to_device(self, device: str, /, *, stream: object = None) -> Self:
        """This tensor: "cpu" is the only device."""
        if device != "cpu" or stream is not None:
            raise ValueError(f"to_device: {device!r} is not a device here. The only one is 'cpu'.")
        return self

    # Methods under NumPy's names.

    @property
    def T(self) -> Tensor:  # noqa: N802
        """Axes in reverse order."""
        return movement.permute_dims(self, tuple(reversed(range(self.ndim))))

    @property
    def mT(self) -> Tensor:  # noqa: N802
        """The last two axes exchanged."""
        return movement.matrix_transpose(self)

    @property
    def real(self) -> Tensor:
        """The real part."""
        return complexes.real(self)

    @property
    def imag(self) -> Tensor:
        """The imaginary part."""
        return complexes.imag(self)

    def astype(self, dtype: DTypeLike) -> Tensor:
        """Convert to another dtype."""
        return cast(self, dtype)

    def reshape(self, *shape: ShapeLike) -> Tensor:
        """The same elements in another shape."""
        whole: Any = shape[0] if len(shape) == 1 else shape
        return movement.reshape(self, whole)

    def transpose(self, *axes: Axes) -> Tensor:
        """Axes in the given order, reversed by default."""
        order: Any = axes[0] if len(axes) == 1 else axes or None
        if order is None:
            return self.T
        return movement.permute_dims(self, order)

    def ravel(self) -> Tensor:
        """All elements along one axis."""
        return movement.reshape(self, (-1,)) if self.size else movement.reshape(self, (0,))

    def flatten(self) -> Tensor:
        """All elements along one axis."""
        return self.ravel()

    sum = reduction.sum
    prod = reduction.prod
    mean = reduction.mean
    var = reduction.var
    std = reduction.std
    max = reduction.max
    min = reduction.min
    argmax = reduction.argmax
    argmin = reduction.argmin
    any = reduction.any
    all = reduction.all
    squeeze = movement.squeeze
    clip = arithmetic.clip
    conj = complexes.conj

    def dot(self, other: TensorLike) -> Tensor:
        """Matrix or inner product."""
        if self.ndim and np.ndim(other):  # type: ignore[arg-type]  # of whatever has an ndim
            return contraction.matmul(self, other)
        return self * other

    __dir__ = without_internals(
        "computed current enter enter_unnoticed hold_again lock materialize node number "
        "reads_are_recorded rebind recording restore result_class store value_class view_class"
    )


explain_attributes(Operators)


def _incomparable(other: object) -> bool:
    return (
        other is None
        or isinstance(other, (str, bytes, dict, type))
        or (
            type(other) not in _KNOWN
            and (is_foreign(other, "__eq__") or is_foreign(other, "__ne__"))
        )
    )
