"""Masks: tensors that say which of their steps count, as Embedding and Masking give them."""

from __future__ import annotations

from typing import Any

from gradtape.pytree import flatten
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.tensor import Tensor


class Masked(Tensor):
    """A tensor with a mask. What is computed from it has none, unless a layer passes it on."""

    __slots__ = ("_keras_mask",)

    def __init__(self, tensor: Any, mask: Any) -> None:
        super().__init__(tensor.node, tensor.recording, tensor.computed)
        if self.computed is None and self.recording is not None:
            self.recording.handles.append(self)
        self._keras_mask = mask


Masked.result_class = Masked.view_class = Tensor


def mask_of(inputs: Any) -> Tensor | list[Tensor | None] | None:
    """The mask of a tensor, the list of masks of several, or None if there is none."""
    found = [getattr(leaf, "_keras_mask", None) for leaf in flatten(inputs)[0]]
    if all(mask is None for mask in found):
        return None
    return found if isinstance(inputs, (list, tuple, dict)) else found[0]


def with_mask(tensor: Any, mask: Any) -> Any:
    """The tensor with a mask."""
    return Masked(tensor, mask) if isinstance(tensor, Tensor) and mask is not None else tensor


def masked(inputs: Any, mask: Any) -> Any:
    """Inputs, or a list of them, with masks that are given from outside."""
    if mask is None:
        return inputs
    if isinstance(inputs, (list, tuple)) and isinstance(mask, (list, tuple)):
        return [with_mask(convert(x), m) for x, m in zip(inputs, mask, strict=True)]
    return with_mask(convert(inputs), mask)
