"""`tf.compat.v1.nn`: functions with TensorFlow 1's argument names, and layers as functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape.tf import nn as _new
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import IntLike, Name, TensorLike
from gradtape.tf.ops.products import matmul
from gradtape.tf.v1.renamed import renaming

__all__ = [
    "dropout", "log_softmax", "relu_layer", "softmax", "softmax_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits_v2", "xw_plus_b",
]  # fmt: skip

softmax = renaming(_new.softmax, dim="axis")
log_softmax = renaming(_new.log_softmax, dim="axis")
softmax_cross_entropy_with_logits = softmax_cross_entropy_with_logits_v2 = renaming(
    _new.softmax_cross_entropy_with_logits, dim="axis"
)


def dropout(
    x: TensorLike, keep_prob: float | None = None,
    noise_shape: Sequence[IntLike | None] | None = None, seed: IntLike | None = None,
    name: Name = None, rate: float | None = None,
) -> Tensor:  # fmt: skip
    """Elements kept with a probability, or dropped at a rate, and scaled to keep the mean.

    >>> tf.compat.v1.nn.dropout([1.0, 2.0], keep_prob=1.0).numpy().tolist()
    [1.0, 2.0]
    """
    if (keep_prob is None) == (rate is None):
        raise ValueError("dropout: give either keep_prob or rate.")
    dropped = 1.0 - keep_prob if keep_prob is not None else rate
    return _new.dropout(x, dropped, noise_shape, seed)  # type: ignore[arg-type]


def xw_plus_b(x: TensorLike, weights: TensorLike, biases: TensorLike, name: Name = None) -> Tensor:
    """x @ weights + biases.

    >>> tf.compat.v1.nn.xw_plus_b([[1.0]], [[2.0]], [3.0]).numpy().tolist()
    [[5.0]]
    """
    return _new.bias_add(matmul(x, weights), biases)


def relu_layer(x: TensorLike, weights: TensorLike, biases: TensorLike, name: Name = None) -> Tensor:
    """relu(x @ weights + biases).

    >>> tf.compat.v1.nn.relu_layer([[1.0]], [[2.0]], [-3.0]).numpy().tolist()
    [[0.0]]
    """
    return _new.relu(xw_plus_b(x, weights, biases))


def __getattr__(name: str) -> Any:
    return getattr(_new, name)
