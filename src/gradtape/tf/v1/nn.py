"""`tf.compat.v1.nn`: functions with TensorFlow 1's argument names, and layers as functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.libraries import check_exports
from gradtape.tf import nn as _new
from gradtape.tf.base.casting import cast
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import IntLike, Name, TensorLike
from gradtape.tf.ops.custom import stop_gradient
from gradtape.tf.ops.indexing import gather
from gradtape.tf.ops.products import matmul
from gradtape.tf.v1.signatures import with_old_arguments
from gradtape.typing import Probability

__all__ = [
    "dropout",
    "embedding_lookup",
    "relu_layer",
    "softmax_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits_v2",
    "xw_plus_b",
]


@with_old_arguments
def softmax_cross_entropy_with_logits(
    labels: TensorLike, logits: TensorLike, axis: int = -1, name: Name = None
) -> Tensor:
    """The cross-entropy of labels and softmax(logits); no derivative passes to the labels.

    >>> tf.compat.v1.nn.softmax_cross_entropy_with_logits(
    ...     labels=[[0.0, 1.0]], logits=[[1e4, 0.0]], dim=-1
    ... ).numpy().tolist()
    [10000.0]
    """
    return _new.softmax_cross_entropy_with_logits(stop_gradient(labels), logits, axis)


def dropout(
    x: TensorLike,
    keep_prob: Probability | None = None,
    noise_shape: Sequence[IntLike | None] | None = None,
    seed: IntLike | None = None,
    name: Name = None,
    rate: Probability | None = None,
) -> Tensor:
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


softmax_cross_entropy_with_logits_v2 = with_old_arguments(
    _new.softmax_cross_entropy_with_logits, "softmax_cross_entropy_with_logits_v2"
)


@with_old_arguments
def embedding_lookup(
    params: TensorLike,
    ids: TensorLike,
    partition_strategy: str = "mod",
    name: Name = None,
    max_norm: float | None = None,
) -> Tensor:
    """Rows of a table, or of the parts of one: row 5 of three is row 1 of part 2, unless "div".

    >>> table = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    >>> tf.compat.v1.nn.embedding_lookup(table, [1]).numpy().tolist()
    [[3.0, 4.0]]
    """
    if partition_strategy not in ("mod", "div"):
        raise ValueError(f"embedding_lookup: {partition_strategy!r} is neither 'mod' nor 'div'.")
    if partition_strategy == "mod" and isinstance(params, (list, tuple)) and len(params) > 1:
        starts = np.cumsum([0, *(len(part) for part in params)])
        ids = convert(ids)
        ids = gather(starts, ids % len(params)) + cast(ids // len(params), "int64")
    return _new.embedding_lookup(params, ids, max_norm)


def __getattr__(name: str) -> Any:
    return with_old_arguments(getattr(_new, name), name)


check_exports(globals(), __all__)
