"""Variable: gradtape's cell with TensorFlow's arguments, names and rules."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.ops.arrays import indexing
from gradtape.ops.custom.custom import ASSIGNED
from gradtape.recording.record import record
from gradtape.recording.thread_state import state
from gradtape.tensor import tensor as core
from gradtape.tensor.variable import Variable as CoreVariable
from gradtape.tf.conversion import convert
from gradtape.tf.dispatch import PLAIN, effect, graphs
from gradtape.tf.operators import install
from gradtape.tf.scopes import names, without_prefix
from gradtape.tf.shapes import TensorShape
from gradtape.tf.tensor import Reference, Tensor

__all__ = ["Variable"]


class VariableValue(Tensor):
    """What a variable holds: `v.value` in Keras, `v.value()` in TensorFlow."""

    __slots__ = ()

    def __call__(self) -> Tensor:
        return self


class Sliced(Tensor):
    """A part of a variable: a tensor, through which the part can be assigned."""

    __slots__ = ("_key", "_variable")

    def __init__(self, part: Any, variable: Variable, key: Any) -> None:
        super().__init__(part.node, part.recording, part.computed)
        if self.computed is None and self.recording is not None:
            self.recording.handles.append(self)
        self._variable = variable
        self._key = key

    def assign(self, value: Any, use_locking: bool = False, name: Any = None) -> Variable:
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
    as the variable's own, wherever it came from.
    """

    __slots__ = ("constraint", "initial_value")

    result_class = Tensor
    value_class = VariableValue
    reads_are_recorded = True

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: Any = None,
        import_scope: Any = None,
        constraint: Any = None,
        synchronization: Any = None,
        aggregation: Any = None,
        shape: Any = None,
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
        self.initial_value = initial_value
        if graphs.in_use:
            graphs.register(self)

    # Reading.

    def read_value(self) -> Any:
        """The value of now.

        >>> tf.Variable(2.0).read_value().numpy().item()
        2.0
        """
        return graphs.take(convert, (self,), {}, PLAIN) if graphs.in_use else self.value

    def initialized_value(self) -> Any:
        """The value of now: variables are initialised when they are made."""
        return self.read_value()

    def numpy(self) -> Any:
        """The value of now as a NumPy array of its own."""
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

    def eval(self, session: Any = None) -> Any:
        """The value, as TensorFlow 1 asks for it."""
        return self.numpy()

    def __getitem__(self, key: Any) -> Any:
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
        self, value: Any, use_locking: bool = False, name: Any = None, read_value: bool = True
    ) -> Variable:
        """Replace the value; shape and dtype stay.

        >>> tf.Variable(1.0).assign(3).numpy().item()
        3.0
        """
        super().assign(convert(value, self.dtype))
        return self

    @effect
    def assign_add(
        self, delta: Any, use_locking: bool = False, name: Any = None, read_value: bool = True
    ) -> Variable:
        """Add to the value.

        >>> tf.Variable(1.0).assign_add(2).numpy().item()
        3.0
        """
        self._update(_addend(delta, self.dtype), 1)
        return self

    @effect
    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: Any = None, read_value: bool = True
    ) -> Variable:
        """Subtract from the value.

        >>> tf.Variable(1.0).assign_sub(2).numpy().item()
        -1.0
        """
        self._update(_addend(delta, self.dtype), -1)
        return self

    def scatter_nd_update(self, indices: Any, updates: Any, name: Any = None) -> Variable:
        """Replace the elements or slices at positions.

        >>> tf.Variable([1.0, 2.0]).scatter_nd_update([[0]], [5.0]).numpy().tolist()
        [5.0, 2.0]
        """
        return self._scatter("tensor_scatter_nd_update", indices, updates)

    def scatter_nd_add(self, indices: Any, updates: Any, name: Any = None) -> Variable:
        """Add to the elements or slices at positions."""
        return self._scatter("tensor_scatter_nd_add", indices, updates)

    def scatter_nd_sub(self, indices: Any, updates: Any, name: Any = None) -> Variable:
        """Subtract from the elements or slices at positions."""
        return self._scatter("tensor_scatter_nd_sub", indices, updates)

    def scatter_nd_max(self, indices: Any, updates: Any, name: Any = None) -> Variable:
        """The larger of the elements or slices at positions and of others."""
        return self._scatter("tensor_scatter_nd_max", indices, updates)

    def scatter_nd_min(self, indices: Any, updates: Any, name: Any = None) -> Variable:
        """The smaller of the elements or slices at positions and of others."""
        return self._scatter("tensor_scatter_nd_min", indices, updates)

    def _scatter(self, function: str, indices: Any, updates: Any) -> Variable:
        from gradtape.tf import scattering

        return self.assign(getattr(scattering, function)(self, indices, updates))

    def scatter_add(
        self, sparse_delta: Any, use_locking: bool = False, name: Any = None
    ) -> Variable:
        """Add an IndexedSlices, row by row."""
        return self.assign_add(sparse_delta)

    def scatter_sub(
        self, sparse_delta: Any, use_locking: bool = False, name: Any = None
    ) -> Variable:
        """Subtract an IndexedSlices, row by row."""
        return self.assign_sub(sparse_delta)

    def scatter_update(
        self, sparse_delta: Any, use_locking: bool = False, name: Any = None
    ) -> Variable:
        """Replace the rows that an IndexedSlices names."""
        indices, values = sparse_delta.rows
        return self.assign(indexing.scatter_set(self.value, indices, values))

    def scatter_mul(
        self, sparse_delta: Any, use_locking: bool = False, name: Any = None
    ) -> Variable:
        """Multiply the rows that an IndexedSlices names."""
        return self.assign(self * self._factors(sparse_delta))

    def scatter_div(
        self, sparse_delta: Any, use_locking: bool = False, name: Any = None
    ) -> Variable:
        """Divide the rows that an IndexedSlices names."""
        return self.assign(self / self._factors(sparse_delta))

    def _factors(self, sparse_delta: Any) -> Any:
        """The product of the values for each row, 1 where there is none."""
        from gradtape.tf.segments import unsorted_segment_prod

        indices, values = sparse_delta.rows
        return unsorted_segment_prod(values, indices, self.shape[0])

    def scatter_max(
        self, sparse_delta: Any, use_locking: bool = False, name: Any = None
    ) -> Variable:
        """The larger of the rows that an IndexedSlices names and of its values."""
        indices, values = sparse_delta.rows
        return self.scatter_nd_max(indices[:, None], values)

    def scatter_min(
        self, sparse_delta: Any, use_locking: bool = False, name: Any = None
    ) -> Variable:
        """The smaller of the rows that an IndexedSlices names and of its values."""
        indices, values = sparse_delta.rows
        return self.scatter_nd_min(indices[:, None], values)

    def sparse_read(self, indices: Any, name: Any = None) -> Tensor:
        """The rows at indices, as tf.gather gives them."""
        from gradtape.tf.indexing import gather

        return gather(self, indices)

    def gather_nd(self, indices: Any, name: Any = None) -> Tensor:
        """The elements or slices at positions, as tf.gather_nd gives them."""
        from gradtape.tf.indexing import gather_nd

        return gather_nd(self, indices)

    def is_initialized(self, name: Any = None) -> Tensor:
        """True: variables are initialised when they are made."""
        return convert(True)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(
            "'tf.Variable' object does not support item assignment. Use v[key].assign(value)."
        )

    def _store(self, new: core.Tensor) -> None:
        if state.tapes and self.dtype.kind in "fc":
            # A read after this counts as a read of the variable, not of what was assigned. A
            # function that is being captured has to know that it is the variable that it reads.
            old = self if state.recording.capturing else self._handle
            new = record(ASSIGNED, (new, old))
        super()._store(new)

    # Copies are by value: a copied variable is another cell.

    def __deepcopy__(self, memo: Any) -> Variable:
        return _restore(np.array(self.current().array), self.trainable, self.name)

    def __reduce__(self) -> Any:
        return _restore, (np.array(self.current().array), self.trainable, self.name)


def _part(variable: Variable, key: Any) -> Sliced:
    return Sliced(indexing.get_item(variable.value, key), variable, key)


def _addend(delta: Any, dtype: Any) -> Any:
    return delta if getattr(delta, "rows", None) is not None else convert(delta, dtype)


def _restore(value: Any, trainable: bool, name: str) -> Variable:
    with without_prefix():
        return Variable(value, trainable, name=name.removesuffix(":0"))


install(Variable, assignable=True)
