"""Variable: gradtape's cell with TensorFlow's arguments, names and rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from gradtape import Variable as CoreVariable
from gradtape.argument_checks import check_methods
from gradtape.libraries import check_exports, check_function
from gradtape.ops.arrays import indexing
from gradtape.ops.custom.custom import ASSIGNED
from gradtape.tensor import tensor as core
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.dispatch import PLAIN, effect, graphs
from gradtape.tf.base.operators import install
from gradtape.tf.base.scopes import names, without_prefix
from gradtape.tf.base.shapes import TensorShape
from gradtape.tf.base.slices import IndexedSlices
from gradtape.tf.base.tensor import Reference, Tensor
from gradtape.tf.base.types import Array, DTypeLike, Name, TensorLike
from gradtape.tf.ops import indexing as lookups
from gradtape.tf.ops.segments import unsorted_segment_prod
from gradtape.trace.record import record
from gradtape.trace.recording import state
from gradtape.training.storage import registry

__all__ = ["Variable"]


class VariableValue(Tensor):
    """The value of a variable: `v.value` in Keras, `v.value()` in TensorFlow."""

    __slots__ = ()

    def __call__(self) -> Tensor:
        return self


class Sliced(Tensor):
    """A part of a variable, as a tensor whose `assign` replaces that part."""

    __slots__ = ("_key", "_variable")

    def __init__(self, part: core.Tensor, variable: Variable, key: object) -> None:
        super().__init__(part.node, part.recording, part.computed)
        if self.computed is None and self.recording is not None:
            self.recording.handles.append(self)
        self._variable = variable
        self._key = key

    def assign(
        self, value: TensorLike, use_locking: bool = False, name: str | None = None
    ) -> Variable:
        """Replace this part of the variable."""
        new = convert(value, self._variable.dtype)
        return self._variable.assign(indexing.set_item(self._variable.value, self._key, new))


VariableValue.result_class = VariableValue.view_class = Tensor
Sliced.result_class = Sliced.view_class = Tensor


class Variable(CoreVariable):
    """A mutable cell for a tensor of fixed shape and dtype.

    >>> v = tf.Variable([1.0, 2.0], name="weights")
    >>> v.assign_add([1.0, 1.0])
    <tf.Variable 'weights:0' shape=(2,) dtype=float32, numpy=array([2., 3.], dtype=float32)>
    >>> v[0].assign(5.0).numpy().tolist()
    [5.0, 3.0]

    Gradients stop at assignments, as in TensorFlow: a value that was assigned under a tape counts
    as the variable's own, and no derivative passes to its operands.
    """

    __slots__ = {
        "constraint": "A function that projects each new value, or None.",
        "initial_value": "The value that it began with.",
    }

    result_class = Tensor
    value_class = VariableValue
    reads_are_recorded = True

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        validate_shape: bool = True,
        caching_device: object = None,
        name: str | None = None,
        variable_def: object = None,
        dtype: DTypeLike | None = None,
        import_scope: object = None,
        constraint: Callable[[Tensor], Tensor] | None = None,
        synchronization: object = None,
        aggregation: object = None,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        if initial_value is None:
            raise ValueError("The `initial_value` arg to `tf.Variable` must be given a value.")
        start = initial_value() if callable(initial_value) else initial_value
        if graphs.in_use:
            start = graphs.settle(start)
        start = convert(start, dtype)
        if shape is not None and not TensorShape(shape).is_compatible_with(start.shape):
            raise ValueError(
                f"Variable: an initial value of shape {start.shape} does not fit shape "
                f"{TensorShape(shape)}."
            )
        super().__init__(start, trainable is not False, f"{names.prefix}{name or 'Variable'}:0")
        self.constraint = constraint
        if constraint is not None:
            check_function("Variable: constraint", constraint)
        self.initial_value = initial_value
        if graphs.in_use:
            graphs.register(self)

    # Reading.

    def read_value(self) -> Tensor:
        """The current value.

        >>> tf.Variable(2.0).read_value().numpy().item()
        2.0
        """
        return graphs.take(convert, (self,), {}, PLAIN) if graphs.in_use else convert(self)

    def initialized_value(self) -> Tensor:
        """The current value: variables are initialised when they are made."""
        return self.read_value()

    def numpy(self) -> Any:
        """The current value as a NumPy array of its own."""
        return self.value.numpy()

    def get_shape(self) -> Any:
        """The length of each axis."""
        return self.shape

    @property
    def device(self) -> str:
        """The only device, in TensorFlow's words."""
        return "/job:localhost/replica:0/task:0/device:CPU:0"

    def ref(self) -> Reference:
        """Something hashable that stands for this variable."""
        return Reference(self)

    experimental_ref = ref

    def eval(self, session: object = None) -> Any:
        """The current value: TensorFlow 1's word for `numpy`."""
        return self.numpy()

    def __getitem__(self, key: object) -> Any:
        return graphs.take(_part, (self, key), {}, PLAIN) if graphs.in_use else _part(self, key)

    def __repr__(self) -> str:
        array = self.current().array
        text = repr(array) if array.ndim else repr(array.item())
        line = "\n" if "\n" in text else ""
        name, dtype = self.name, self.dtype.name
        return f"<tf.Variable {name!r} shape={self.shape} dtype={dtype}, numpy={line}{text}>"

    def __format__(self, template: str) -> str:
        return format(self.value, template) if template else repr(self)

    # Writing.

    @effect
    def assign(
        self,
        value: TensorLike,
        use_locking: bool = False,
        name: Name = None,
        read_value: bool = True,
    ) -> Variable:
        """Replace the value; shape and dtype stay.

        >>> tf.Variable(1.0).assign(3).numpy().item()
        3.0
        """
        super().assign(convert(value, self.dtype))
        return self

    @effect
    def assign_add(
        self,
        delta: TensorLike,
        use_locking: bool = False,
        name: Name = None,
        read_value: bool = True,
    ) -> Variable:
        """Add to the value.

        >>> tf.Variable(1.0).assign_add(2).numpy().item()
        3.0
        """
        self._update(_addend(delta, self.dtype), 1)
        return self

    @effect
    def assign_sub(
        self,
        delta: TensorLike,
        use_locking: bool = False,
        name: Name = None,
        read_value: bool = True,
    ) -> Variable:
        """Subtract from the value.

        >>> tf.Variable(1.0).assign_sub(2).numpy().item()
        -1.0
        """
        self._update(_addend(delta, self.dtype), -1)
        return self

    def scatter_nd_update(
        self, indices: TensorLike, updates: TensorLike, name: Name = None
    ) -> Variable:
        """Replace the elements or slices at positions.

        >>> tf.Variable([1.0, 2.0]).scatter_nd_update([[0]], [5.0]).numpy().tolist()
        [5.0, 2.0]
        """
        return self.assign(lookups.tensor_scatter_nd_update(self, indices, updates))

    def scatter_nd_add(
        self, indices: TensorLike, updates: TensorLike, name: Name = None
    ) -> Variable:
        """Add to the elements or slices at positions."""
        return self.assign(lookups.tensor_scatter_nd_add(self, indices, updates))

    def scatter_nd_sub(
        self, indices: TensorLike, updates: TensorLike, name: Name = None
    ) -> Variable:
        """Subtract from the elements or slices at positions."""
        return self.assign(lookups.tensor_scatter_nd_sub(self, indices, updates))

    def scatter_nd_max(
        self, indices: TensorLike, updates: TensorLike, name: Name = None
    ) -> Variable:
        """Raise the elements or slices at positions to the updates where these are larger."""
        return self.assign(lookups.tensor_scatter_nd_max(self, indices, updates))

    def scatter_nd_min(
        self, indices: TensorLike, updates: TensorLike, name: Name = None
    ) -> Variable:
        """Lower the elements or slices at positions to the updates where these are smaller."""
        return self.assign(lookups.tensor_scatter_nd_min(self, indices, updates))

    def scatter_add(
        self, sparse_delta: IndexedSlices, use_locking: bool = False, name: Name = None
    ) -> Variable:
        """Add an IndexedSlices, row by row."""
        return self.assign_add(sparse_delta)

    def scatter_sub(
        self, sparse_delta: IndexedSlices, use_locking: bool = False, name: Name = None
    ) -> Variable:
        """Subtract an IndexedSlices, row by row."""
        return self.assign_sub(sparse_delta)

    def scatter_update(
        self, sparse_delta: IndexedSlices, use_locking: bool = False, name: Name = None
    ) -> Variable:
        """Replace the rows that an IndexedSlices names."""
        indices, values = sparse_delta.rows
        return self.assign(indexing.scatter_set(self.value, indices, values))

    def scatter_mul(
        self, sparse_delta: IndexedSlices, use_locking: bool = False, name: Name = None
    ) -> Variable:
        """Multiply the rows that an IndexedSlices names."""
        return self.assign(self * self._factors(sparse_delta))

    def scatter_div(
        self, sparse_delta: IndexedSlices, use_locking: bool = False, name: Name = None
    ) -> Variable:
        """Divide the rows that an IndexedSlices names."""
        return self.assign(self / self._factors(sparse_delta))

    def _factors(self, sparse_delta: IndexedSlices) -> Tensor:
        """The product of the values for each row, 1 for rows without values."""
        indices, values = sparse_delta.rows
        return unsorted_segment_prod(values, indices, self.shape[0])

    def scatter_max(
        self, sparse_delta: IndexedSlices, use_locking: bool = False, name: Name = None
    ) -> Variable:
        """Raise the rows that an IndexedSlices names to its values where these are larger."""
        indices, values = sparse_delta.rows
        return self.scatter_nd_max(indices[:, None], values)

    def scatter_min(
        self, sparse_delta: IndexedSlices, use_locking: bool = False, name: Name = None
    ) -> Variable:
        """Lower the rows that an IndexedSlices names to its values where these are smaller."""
        indices, values = sparse_delta.rows
        return self.scatter_nd_min(indices[:, None], values)

    def sparse_read(self, indices: TensorLike, name: Name = None) -> Tensor:
        """The rows at indices, as tf.gather gives them."""
        return lookups.gather(self, indices)

    def gather_nd(self, indices: TensorLike, name: Name = None) -> Tensor:
        """The elements or slices at positions, as tf.gather_nd gives them."""
        return lookups.gather_nd(self, indices)

    def is_initialized(self, name: Name = None) -> Tensor:
        """True: variables are initialised when they are made."""
        return convert(True)

    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise TypeError(
            "'tf.Variable' object does not support item assignment. Use v[key].assign(value)."
        )

    def store(self, new: core.Tensor) -> None:
        """Hold another tensor; under a tape the assignment is an op of its own."""
        if state.tapes and self.dtype.kind in "fc":
            # A later read counts as a read of the variable, not of the assigned tensor. A capture
            # needs the variable itself, because each replay starts from the value of that call.
            old = self if state.recording.capturing else self._handle
            new = record(ASSIGNED, (new, old))
        super().store(new)

    @classmethod
    def restored(cls, value: Array, trainable: bool, name: str) -> Variable:
        """A variable as `gt.load` makes it."""
        return _restore(value, trainable, name)

    # A copied variable is another cell with the same value.

    def __deepcopy__(self, memo: object) -> Variable:
        return _restore(np.array(self.current().array), self.trainable, self.name)

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (np.array(self.current().array), self.trainable, self.name)


def _part(variable: Variable, key: object) -> Sliced:
    return Sliced(indexing.get_item(variable.value, key), variable, key)


def _addend(delta: object, dtype: DTypeLike) -> Any:
    return delta if getattr(delta, "rows", None) is not None else convert(delta, dtype)


def _restore(value: Array, trainable: bool, name: str) -> Variable:
    with without_prefix():
        return Variable(value, trainable, name=name.removesuffix(":0"))


install(Variable, assignable=True)
registry.register_library("gradtape.tf", {"Variable": Variable})


check_methods(Sliced)


check_exports(globals(), __all__)
