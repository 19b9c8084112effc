"""RowSparse: the gradient of a look-up, kept as rows until somebody needs it dense."""

from __future__ import annotations

from typing import Any

from gradtape.evaluate.flush import compute_handle
from gradtape.graph.node import Node, apply, constant
from gradtape.graph.operators import OPERATORS
from gradtape.graph.spec import Spec
from gradtape.recording.handle import Handle
from gradtape.recording.record import record
from gradtape.recording.recording import Recording


def make_row_sparse(base: Any) -> Any:
    """The class of row-sparse tensors on top of the Tensor class, which is defined above us."""

    class RowSparse(base):
        """A tensor that is zero but for some rows: `values[i]` adds to row `indices[i]`.

        It is what `gradient` gives for a table that was only looked up. Used like any tensor it
        becomes dense; `assign_sub` and optimisers read `indices` and `values` instead.

        >>> table = gt.Variable(np.zeros((1000, 2)))
        >>> with gt.GradientTape() as tape:
        ...     y = gt.sum(gt.take(table, gt.asarray([3, 3]), axis=0))
        >>> g = tape.gradient(y, table)
        >>> g.indices.tolist(), g.values.shape, g.shape
        ([3, 3], (2, 2), (1000, 2))
        >>> g[3].tolist()
        [2.0, 2.0]
        """

        __slots__ = ("_spec", "indices", "values")

        def __init__(self, indices: Any, values: Any, of: Spec) -> None:
            Handle.__init__(self, None, None, None)
            self.indices = indices
            self.values = values
            self._spec = of

        @property
        def spec(self) -> Spec:
            """Shape and dtype."""
            return self._spec

        @property
        def rows(self) -> tuple[Any, Any]:
            """Indices and values."""
            return self.indices, self.values

        def dense(self) -> Any:
            """The same as an ordinary tensor.

            >>> table = gt.Variable([[1.0], [2.0]])
            >>> with gt.GradientTape() as tape:
            ...     y = gt.sum(gt.take(table, gt.asarray([1]), axis=0))
            >>> tape.gradient(y, table).dense().tolist()
            [[0.0], [1.0]]
            """
            nothing = record(OPERATORS.full, (), (self.spec.shape, 0, self.spec.dtype))
            return record(OPERATORS.scatter_add_rows, (nothing, self.indices, self.values))

        def enter(self, recording: Recording) -> Node:
            if self.computed is not None:
                return recording.enter_value(self.computed)
            return self.dense_node(recording)

        def dense_node(self, recording: Recording) -> Node:
            inputs = (self.indices.enter(recording), self.values.enter(recording))
            nothing = constant(0, self.spec)
            return apply(OPERATORS.scatter_add_rows, (nothing, *inputs))

        def materialize(self) -> None:
            dense = self.dense()
            compute_handle(dense)
            self.computed = dense.computed  # type: ignore[misc]  # a slot of the base

    RowSparse.result_class = base
    RowSparse.view_class = base.view_class
    return RowSparse
