"""TensorArray: a list of tensors that is written and read by index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

import gradtape as gt
from gradtape.errors import ArgumentError, ShapeError
from gradtape.libraries import check_exports
from gradtape.pytree import register_pytree
from gradtape.tf.base.conversion import as_shape, concrete, convert
from gradtape.tf.base.dtypes import DType, as_dtype
from gradtape.tf.base.errors import OutOfRangeError
from gradtape.tf.base.shapes import Dims, TensorShape
from gradtape.tf.base.tensor import Tensor, adopt, from_array
from gradtape.tf.base.types import CountLike, DTypeLike, IntLike, Name, ShapeLike, TensorLike

__all__ = ["TensorArray"]


class TensorArray:
    """Tensors of one dtype by index, for loops; a write returns the array to continue with.

    >>> array = tf.TensorArray(tf.float32, size=3)
    >>> for i in range(3):
    ...     array = array.write(i, 2.0 * i)
    >>> array.stack().numpy().tolist()
    [0.0, 2.0, 4.0]
    """

    def __init__(
        self,
        dtype: DTypeLike,
        size: CountLike | None = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: object = None,
        handle: object = None,
        flow: object = None,
        infer_shape: bool = True,
        element_shape: Dims = None,
        colocate_with_first_write_call: bool = True,
        name: Name = None,
    ) -> None:
        self._dtype = as_dtype(dtype)
        self._dynamic = bool(dynamic_size)
        # A read forgets the tensor, by default.
        self._clear = clear_after_read is None or bool(clear_after_read)
        self._infer = bool(infer_shape)
        self._shape = TensorShape(element_shape)
        self._items: list[Tensor | None] = [None] * (0 if size is None else int(size))
        self._read: set[int] = set()

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @property
    def dynamic_size(self) -> bool:
        """Whether it grows when something is written beyond its end."""
        return self._dynamic

    @property
    def element_shape(self) -> TensorShape:
        """The shape of each tensor, as far as it is known."""
        return self._shape

    @property
    def flow(self) -> Tensor:
        """A number without meaning: TensorFlow uses it to order reads and writes in a graph."""
        return convert(0.0)

    def _with(self, items: Sequence[Tensor | None]) -> TensorArray:
        self._items = list(items)
        return self

    def write(self, index: IntLike, value: TensorLike, name: Name = None) -> TensorArray:
        """The array with a tensor at an index."""
        at, tensor = int(index), convert(value, self._dtype)
        if at < 0 or (at >= len(self._items) and not self._dynamic):
            raise OutOfRangeError(
                f"Tried to write to index {at} but array is not resizeable and size is: "
                f"{len(self._items)}. Use dynamic_size=True."
            )
        if self._infer:
            if not self._shape.is_compatible_with(tensor.shape):
                raise ValueError(
                    f"Incompatible shape for value ({tensor.shape}), expected ({self._shape})"
                )
            self._shape = self._shape.merge_with(tensor.shape)
        items = [*self._items, *[None] * (at + 1 - len(self._items))]
        items[at] = tensor
        self._read.discard(at)
        return self._with(items)

    def read(self, index: IntLike, name: Name = None) -> Tensor:
        """The tensor at an index."""
        at = int(index)
        if not 0 <= at < len(self._items):
            raise OutOfRangeError(
                f"Tried to read from index {at} but array size is: {len(self._items)}."
            )
        if at in self._read:
            raise ArgumentError(
                f"Could not read index {at} twice because it was cleared after a previous read "
                "(perhaps try setting clear_after_read = false?)"
            )
        result = self._tensor(at)
        if self._clear:
            self._read.add(at)
            self._items = [*self._items[:at], None, *self._items[at + 1 :]]
        return result

    def _tensor(self, at: int) -> Tensor:
        result = self._items[at]
        if result is not None:
            return result
        if not self._shape.is_fully_defined():
            raise ArgumentError(
                f"Could not read index {at}: nothing was written, and the shape is not known."
            )
        return adopt(gt.zeros(tuple(self._shape), dtype=self._dtype.dtype))

    def gather(self, indices: TensorLike, name: Name = None) -> Tensor:
        """The tensors at several indices, stacked."""
        return gt.stack([self._tensor(int(at)) for at in concrete(indices)])

    def stack(self, name: Name = None) -> Tensor:
        """All tensors, along a new first axis."""
        if not self._items:
            known = self._shape if self._shape.rank is not None else ()
            return adopt(gt.zeros((0, *(n or 0 for n in known)), dtype=self._dtype.dtype))
        return gt.stack([self._tensor(at) for at in range(len(self._items))])

    def concat(self, name: Name = None) -> Tensor:
        """All tensors, one after the other along their first axis."""
        return gt.concat([self._tensor(at) for at in range(len(self._items))], axis=0)

    def unstack(self, value: TensorLike, name: Name = None) -> TensorArray:
        """The array with the tensors along the first axis of another."""
        parts = list(gt.unstack(convert(value, self._dtype)))
        if len(parts) > len(self._items) and not self._dynamic and self._items:
            raise ValueError(f"unstack: {len(parts)} tensors for an array of {len(self._items)}.")
        self._shape = self._shape.merge_with(parts[0].shape) if parts else self._shape
        return self._with(parts)

    def scatter(self, indices: TensorLike, value: TensorLike, name: Name = None) -> TensorArray:
        """The array with tensors at several indices."""
        parts = gt.unstack(convert(value, self._dtype))
        for at, part in zip(concrete(indices).tolist(), parts, strict=True):
            self.write(at, part)
        return self

    def split(self, value: TensorLike, lengths: ShapeLike, name: Name = None) -> TensorArray:
        """The array with parts of a tensor, of the given lengths along its first axis."""
        whole, start, parts = convert(value, self._dtype), 0, []
        sizes = as_shape(lengths)
        if min(sizes, default=0) < 0 or sum(sizes) != whole.shape[0]:
            raise ShapeError(
                f"TensorArray.split: lengths {list(sizes)} do not add up to the length "
                f"{whole.shape[0]} of the first axis."
            )
        for length in sizes:
            parts.append(whole[start : start + length])
            start += length
        return self._with(parts)

    def size(self, name: Name = None) -> Tensor:
        """The number of indices, as a tensor."""
        return from_array(np.int32(len(self._items)))

    def identity(self) -> TensorArray:
        """The array itself."""
        return self

    def grad(self, *_: object, **__: object) -> NoReturn:
        """Raise an error: derivatives pass through reads and writes anyway."""
        raise NotImplementedError("TensorArray.grad: use a tf.GradientTape.")

    def close(self, name: Name = None) -> None:
        """Forget the tensors."""
        self._items = []


def _taken_apart(array: TensorArray) -> tuple[tuple[Tensor | None, ...], object]:
    """The tensors, and everything else: arrays can be variables of a loop."""
    places = tuple(at for at, item in enumerate(array._items) if item is not None)
    shape = None if array._shape.rank is None else tuple(array._shape)
    settings = (array._dtype, len(array._items), array._dynamic, array._clear, array._infer, shape)
    return tuple(array._items[at] for at in places), (settings, places, tuple(sorted(array._read)))


def _put_together(rest: Any, tensors: Iterable[Tensor]) -> TensorArray:
    (dtype, size, dynamic, clear, infer, shape), places, read = rest
    made = TensorArray(dtype, size, dynamic, clear, infer_shape=infer, element_shape=shape)
    for at, tensor in zip(places, tensors, strict=True):
        made._items[at] = tensor
    made._read = set(read)
    return made


register_pytree(TensorArray, _taken_apart, _put_together)


check_exports(globals(), __all__)
