"""IndexedSlices: the gradient of a look-up, as rows and where they belong."""

from __future__ import annotations

from typing import Any

from gradtape.graph.recording import host_value
from gradtape.graph.spec import spec
from gradtape.recording.rows import make_row_sparse
from gradtape.tf.conversion import as_shape, convert
from gradtape.tf.tensor import Tensor, from_value, sharing

__all__ = ["IndexedSlices"]

_RowSparse: Any = make_row_sparse(Tensor)


class IndexedSlices(_RowSparse):
    """A tensor that is zero but for some rows: `values[i]` adds to row `indices[i]`.

    >>> table = tf.Variable([[1.0], [2.0], [3.0]])
    >>> with tf.GradientTape() as tape:
    ...     y = tf.reduce_sum(tf.gather(table, [2, 2]))
    >>> slices = tape.gradient(y, table)
    >>> slices.indices.numpy().tolist(), slices.values.shape, slices.dense_shape.numpy().tolist()
    ([2, 2], TensorShape([2, 1]), [3, 1])
    >>> tf.convert_to_tensor(slices).numpy().tolist()
    [[0.0], [0.0], [2.0]]

    Used like any tensor it becomes dense; optimizers apply it row by row.
    """

    __slots__ = ()

    def __init__(self, values: Any, indices: Any, dense_shape: Any = None) -> None:
        values, indices = convert(values), convert(indices)
        rows = values.spec.shape[1:]
        if dense_shape is None:
            raise ValueError(
                "IndexedSlices: without dense_shape the number of rows is not known. Pass it."
            )
        shape = as_shape(dense_shape)
        if shape[1:] != rows or values.spec.shape[:1] != indices.spec.shape:
            raise ValueError(
                f"IndexedSlices: values of shape {values.shape} and indices of shape "
                f"{indices.shape} do not fill rows of a tensor of shape {shape}."
            )
        super().__init__(indices, values, spec(shape, values.spec.dtype))

    @property
    def dense_shape(self) -> Tensor:
        """The shape of the whole tensor, as a tensor."""
        return from_value(host_value(self.spec.shape, "int32"))

    def __repr__(self) -> str:
        return (
            f"IndexedSlices(indices={self.indices!s}, values={self.values!s}, "
            f"dense_shape={self.dense_shape!s})"
        )

    __str__ = __repr__


def of_rows(found: Any) -> IndexedSlices:
    """A row-sparse gradient of gradtape's as one of ours."""
    made = IndexedSlices.__new__(IndexedSlices)
    indices, values = (x if isinstance(x, Tensor) else sharing(x) for x in found.rows)
    _RowSparse.__init__(made, indices, values, found.spec)
    return made


IndexedSlices.result_class = IndexedSlices.view_class = Tensor
