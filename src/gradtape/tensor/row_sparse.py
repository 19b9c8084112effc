"""RowSparse: the gradient of a look-up, kept as rows until it is needed dense."""

from __future__ import annotations

from gradtape.ir.node import Node, apart_from_recorded, apply, constant
from gradtape.ir.spec import Spec
from gradtape.ops.arrays.creation import FULL
from gradtape.ops.arrays.gathering import SCATTER_ADD
from gradtape.runtime.flush import compute_handle
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.tensor_view import TensorView
from gradtape.trace.record import record
from gradtape.trace.recording import Recording
from gradtape.trace.value import Handle

__all__ = ["RowSparse"]


class KeptAsRows(Handle):
    """The behaviour of a row-sparse tensor, to be put before a class of tensors."""

    __slots__ = {
        "_spec": None,
        "indices": "The numbers of the rows.",
        "values": "The rows, in the order of `indices`.",
    }

    def __init__(self, indices: Tensor, values: Tensor, of: Spec) -> None:
        super().__init__(None, None, None)
        self.indices = indices
        self.values = values
        self._spec = of

    @property
    def spec(self) -> Spec:
        """Shape and dtype."""
        return self._spec

    @property
    def rows(self) -> tuple[Tensor, Tensor]:
        """Indices and values."""
        return self.indices, self.values

    def dense(self) -> Tensor:
        """The same as an ordinary tensor.

        >>> table = gt.Variable([[1.0], [2.0]])
        >>> with gt.GradientTape() as tape:
        ...     y = gt.sum(gt.take(table, gt.asarray([1]), axis=0))
        >>> tape.gradient(y, table).dense().tolist()
        [[0.0], [1.0]]
        """
        zeros = record(FULL, (), (self.spec.shape, 0, self.spec.dtype))
        return record(SCATTER_ADD, (zeros, self.indices, self.values), (0,))

    def enter(self, recording: Recording) -> Node:
        """The node of the dense tensor in `recording`."""
        if self.computed is not None and self.values.recording is None:
            return recording.enter_value(self.computed)
        return self.dense_node(recording)

    def dense_node(self, recording: Recording) -> Node:
        """The node of the dense tensor, which is not counted as an application there."""
        inputs = (self.indices.enter(recording), self.values.enter(recording))
        # Apart from what users record: an equal node may have been applied outside a tape.
        with apart_from_recorded():
            return apply(SCATTER_ADD, (constant(0, self.spec), *inputs), (0,))

    def materialize(self) -> None:
        """Compute the dense value: this handle is pending in no recording of its own."""
        dense = self.dense()
        compute_handle(dense)
        self.computed = dense.computed


class RowSparse(KeptAsRows, Tensor):
    """A tensor that is zero but for some rows: `values[i]` adds to row `indices[i]`.

    It is the gradient of a table that was only looked up. Used like any tensor it becomes dense;
    `assign_sub` and optimisers read `indices` and `values` instead.

    >>> table = gt.Variable(np.zeros((1000, 2)))
    >>> with gt.GradientTape() as tape:
    ...     y = gt.sum(gt.take(table, gt.asarray([3, 3]), axis=0))
    >>> g = tape.gradient(y, table)
    >>> g.indices.tolist(), g.values.shape, g.shape
    ([3, 3], (2, 2), (1000, 2))
    >>> g[3].tolist()
    [2.0, 2.0]
    """

    __slots__ = ()


# Ops on it, and views of it, give ordinary tensors.
RowSparse.result_class = Tensor
RowSparse.view_class = TensorView
Tensor.rows_class = RowSparse
