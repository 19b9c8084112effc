"""Tensor: gradtape's lazy tensor with TensorFlow's methods. Operators are in operators.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from gradtape.libraries import check_exports, warn
from gradtape.pytree import flatten, unflatten
from gradtape.tensor import tensor as core
from gradtape.tensor.tensor_view import TensorView
from gradtape.tf.base.dtypes import DType, of_numpy
from gradtape.tf.base.shapes import Dims, TensorShape
from gradtape.trace.value import Value, host_value
from gradtape.training.storage import registry

__all__ = ["Tensor", "adopt", "is_tensor"]

_new_shape: Any = tuple.__new__


class Tensor(core.Tensor):
    """TensorFlow's kind of tensor: immutable, float32 by default.

    >>> x = tf.constant([1.0, 2.0])
    >>> x * 2
    <tf.Tensor: shape=(2,), dtype=float32, numpy=array([2., 4.], dtype=float32)>
    >>> print(x * 2)
    tf.Tensor([2. 4.], shape=(2,), dtype=float32)
    >>> x.numpy(), x.shape, x.dtype
    (array([1., 2.], dtype=float32), TensorShape([2]), tf.float32)

    `x += 1` makes a new tensor. Tensors of different dtypes do not mix: cast one of them. Python
    numbers take the dtype of the tensor beside them.
    """

    __slots__ = ()

    @property
    def shape(self) -> Any:  # type: ignore[override]
        """The length of each axis."""
        return _new_shape(TensorShape, self.spec.shape)

    if TYPE_CHECKING:
        # Ops on a tensor of this class give tensors of this class: see `result_class`.
        def reshape(self, *shape: Any) -> Tensor: ...

        def squeeze(self, axis: Any = None, *more: Any, **unknown: Any) -> Tensor: ...

        def conj(self) -> Tensor: ...

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """The element type."""
        return of_numpy(self.spec.dtype)

    def get_shape(self) -> TensorShape:
        """The length of each axis."""
        return self.shape

    def set_shape(self, shape: Dims) -> None:
        """Raise a ValueError unless the tensor has this shape; None stands for any length."""
        self.shape.assert_is_compatible_with(shape)

    @property
    def name(self) -> str:
        """A name that all tensors share: they have none of their own."""
        return "Tensor"

    @property
    def device(self) -> str:
        """The only device, in TensorFlow's words."""
        return "/job:localhost/replica:0/task:0/device:CPU:0"

    def read(self) -> np.ndarray[Any, Any]:
        """The value as a read-only array, without a copy."""
        return core.Tensor.numpy(self)

    def numpy(self) -> Any:
        """The value as a NumPy array of its own, or as a NumPy scalar if there are no axes.

        >>> tf.constant(2.5).numpy()
        np.float32(2.5)
        """
        array = core.Tensor.numpy(self)
        return array.copy() if array.ndim else array[()]

    def eval(self, feed_dict: object = None, session: object = None) -> Any:
        """The value: TensorFlow 1's word for `numpy`.

        >>> float(tf.constant(2.5).eval())
        2.5
        """
        if feed_dict:
            raise ValueError("eval: this tensor has its value already; leave out feed_dict.")
        return self.numpy()

    def ref(self) -> Reference:
        """Something hashable that stands for this tensor.

        >>> x = tf.constant(1.0)
        >>> {x.ref(): "x"}[x.ref()], x.ref().deref() is x
        ('x', True)
        """
        return Reference(self)

    experimental_ref = ref

    def __repr__(self) -> str:
        array = self.read()
        text = repr(array) if array.ndim else repr(array.item())
        line = "\n" if "\n" in text else ""
        return f"<tf.Tensor: shape={self.shape}, dtype={self.dtype.name}, numpy={line}{text}>"

    def __str__(self) -> str:
        array = self.read()
        text = str(array) if array.ndim else str(array[()])
        line = "\n" if "\n" in text else ""
        return f"tf.Tensor({line}{text}, shape={self.shape}, dtype={self.dtype.name})"

    def __format__(self, template: str) -> str:
        array = self.read()
        return format(array[()] if not array.ndim else array, template)

    def __float__(self) -> float:
        return float(self._one_element("float"))

    def __int__(self) -> int:
        return int(self._one_element("int"))

    def _one_element(self, name: str) -> Any:
        if self.spec.size != 1:
            raise TypeError(
                f"{name}: only a tensor of one element can become a Python number, and this one "
                f"has shape {self.shape}. Choose an element, or reduce it."
            )
        return getattr(core.Tensor, f"__{name}__")(self)

    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise TypeError(
            "tensors do not change: 'tf.Tensor' object does not support item assignment. Use "
            "tf.tensor_scatter_nd_update, or a tf.Variable."
        )

    if TYPE_CHECKING:  # operators.py installs these.

        def _binary(self, other: Any) -> Tensor: ...

        def _unary(self) -> Tensor: ...

        def __getitem__(self, key: object) -> Tensor: ...

        __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = _binary
        __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = _binary
        __rpow__ = __matmul__ = __rmatmul__ = __and__ = __rand__ = __or__ = __ror__ = _binary
        __xor__ = __rxor__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _binary
        __lt__ = __le__ = __gt__ = __ge__ = _binary
        __neg__ = __pos__ = __abs__ = __invert__ = _unary

    # Copies and exports.

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if self.is_tracked():
            # TensorFlow allows it without a word.
            warn(
                "a tensor that a tape tracks becomes a NumPy array, through which no derivative "
                "passes. Use TensorFlow's functions on it, or x.numpy() where only the value is "
                "meant."
            )
        array = self.read()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __deepcopy__(self, memo: object) -> Tensor:
        return from_array(self.read())

    def __reduce__(self) -> tuple[object, ...]:
        return from_array, (np.array(self.read()),)


Tensor.result_class = Tensor.view_class = Tensor
registry.register_library("gradtape.tf", {"Tensor": Tensor})


class Reference:
    """Stands for a tensor or variable where something hashable is needed; made by `.ref()`."""

    __slots__ = ("_thing",)

    def __init__(self, thing: object) -> None:
        self._thing = thing

    def deref(self) -> Any:
        """The tensor or variable."""
        return self._thing

    def __hash__(self) -> int:
        return id(self._thing)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self._thing is other._thing

    def __repr__(self) -> str:
        return f"<Reference wrapping {self._thing!r}>"


def from_array(array: object) -> Tensor:
    """A tensor of a copy of an array."""
    return Tensor(None, None, host_value(array))


def from_value(value: Value) -> Tensor:
    """A handle on a computed value."""
    return Tensor(None, None, value)


def sharing(tensor: core.Tensor) -> Tensor:
    """A tensor of this class with the value of one of gradtape's, which others may hold."""
    made = Tensor(tensor.node, tensor.recording, tensor.computed)
    if made.computed is None and made.recording is not None:
        made.recording.handles.append(made)
    return made


# Classes of gradtape's that `adopt` makes new objects of. slices.py, which imports this module,
# adds RowSparse.
REBUILT: dict[type, Callable[[Any], Tensor]] = {}


def adopt(tree: Any) -> Any:
    """Make fresh tensors of gradtape's in a nest, without other references, tensors of this class.

    >>> type(tf.base.tensor.adopt(gt.asarray(1.0))).__name__
    'Tensor'
    """
    kind = type(tree)
    if kind is Tensor:
        return tree
    if kind is core.Tensor or kind is TensorView:
        # The same slots under another class: no second handle to keep.
        tree.__class__ = Tensor
        return tree
    rebuild = REBUILT.get(kind)
    if rebuild is not None:
        return rebuild(tree)
    leaves, structure = flatten(tree)
    if structure.kind is None:
        return tree
    return unflatten(structure, [adopt(leaf) for leaf in leaves])


def is_tensor(x: object) -> bool:
    """Whether something is a tensor, a variable or an IndexedSlices.

    >>> tf.is_tensor(tf.constant(1.0)), tf.is_tensor(1.0)
    (True, False)
    """
    return isinstance(x, core.Tensor) or hasattr(x, "enter")


check_exports(globals(), __all__)
