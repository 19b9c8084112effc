"""IndexedSlices: the gradient of a look-up, as rows and their indices."""

from __future__ import annotations

from typing import Any

from gradtape import RowSparse
from gradtape.ir.spec import Spec
from gradtape.libraries import check_exports, spec
from gradtape.tensor.row_sparse import KeptAsRows
from gradtape.tf.base.conversion import as_shape, convert
from gradtape.tf.base.dtypes import DType
from gradtape.tf.base.shapes import TensorShape
from gradtape.tf.base.tensor import REBUILT, Tensor, from_value, sharing
from gradtape.tf.base.types import ShapeLike, TensorLike
from gradtape.trace.value import host_value

__all__ = ["IndexedSlices"]


class IndexedSlices(KeptAsRows, Tensor):
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

    def __init__(
        self, values: TensorLike, indices: TensorLike, dense_shape: ShapeLike | None = None
    ) -> None:
        values, indices = convert(values), convert(indices)
        rows = values.spec.shape[1:]
        shape = (-1, *rows) if dense_shape is None else as_shape(dense_shape)
        if shape[1:] != rows or values.spec.shape[:1] != indices.spec.shape:
            raise ValueError(
                f"IndexedSlices: values of shape {values.shape} and indices of shape "
                f"{indices.shape} do not fill rows of a tensor of shape {shape}."
            )
        if dense_shape is not None and min(shape, default=0) < 0:
            raise ValueError(f"IndexedSlices: dense_shape={shape} has a negative length.")
        whole: Any = None if dense_shape is None else spec(shape, values.spec.dtype)
        super().__init__(indices, values, whole)

    @property
    def spec(self) -> Spec:
        """Shape and dtype of the whole tensor."""
        if self._spec is None:
            raise ValueError(
                "IndexedSlices: without dense_shape the number of rows is not known. Pass it to "
                "use this as a tensor."
            )
        return self._spec

    @property
    def shape(self) -> TensorShape:  # type: ignore[override]
        """The length of each axis, None for the first if it is not known."""
        known = self._spec is not None
        return TensorShape(self._spec.shape if known else (None, *self.values.spec.shape[1:]))

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """The element type."""
        values: Any = self.values
        return values.dtype

    @property
    def dense_shape(self) -> Tensor | None:
        """The shape of the whole tensor, as a tensor; None if it was not given."""
        return None if self._spec is None else from_value(host_value(self._spec.shape, "int32"))

    def of(self, whole: Tensor) -> IndexedSlices:
        """The same rows as rows of a tensor of another shape."""
        return IndexedSlices(self.values, self.indices, tuple(whole.shape))

    def __repr__(self) -> str:
        return (
            f"IndexedSlices(indices={self.indices!s}, values={self.values!s}, "
            f"dense_shape={self.dense_shape!s})"
        )

    __str__ = __repr__


def of_rows(rows: Any) -> IndexedSlices:
    """The IndexedSlices with the rows and the spec of gradtape's RowSparse."""
    made = IndexedSlices.__new__(IndexedSlices)
    indices, values = (x if isinstance(x, Tensor) else sharing(x) for x in rows.rows)
    KeptAsRows.__init__(made, indices, values, rows.spec)
    return made


IndexedSlices.result_class = IndexedSlices.view_class = Tensor
REBUILT[RowSparse] = of_rows


check_exports(globals(), __all__)
