"""Static types of what functions accept in the place of a tensor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeAlias, TypeVar

import numpy as np

from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable

Item = TypeVar("Item", covariant=True)


class NestedSequence(Protocol[Item]):
    """A list or tuple of items, or of such lists, to any depth.

    `Sequence` would not do: a `str` is a sequence of `str`, so a recursive alias accepts it. Here
    it is refused, because `str.__contains__` takes only strings.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Item | NestedSequence[Item]: ...

    def __contains__(self, item: object, /) -> bool: ...

    def __iter__(self) -> Iterator[Item | NestedSequence[Item]]: ...


# One tensor, array or number: a leaf of a pytree.
TensorLeaf: TypeAlias = Tensor | Variable | np.ndarray | np.generic | bool | int | float | complex
# Values that `gt.asarray` accepts.
TensorLike: TypeAlias = TensorLeaf | NestedSequence[TensorLeaf]
