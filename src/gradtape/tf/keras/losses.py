"""Losses as functions, one for each example, and as classes that reduce them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradtape.errors import ShapeError
from gradtape.nn import losses as core
from gradtape.ops.elementwise import log
from gradtape.ops.movement import reshape
from gradtape.ops.reduction import mean
from gradtape.ops.reduction import sum as total
from gradtape.tf.conversion import convert
from gradtape.tf.dispatch import operation
from gradtape.tf.indexing import as_indices
from gradtape.tf.suggestions import attribute_finder
from gradtape.tf.tensor import Tensor

__all__ = [
    "MAE", "MSE", "BinaryCrossentropy", "CategoricalCrossentropy", "CosineSimilarity", "Hinge",
    "Huber", "KLDivergence", "LogCosh", "Loss", "MeanAbsoluteError", "MeanSquaredError", "Poisson",
    "Reduction", "SparseCategoricalCrossentropy", "binary_crossentropy",
    "categorical_crossentropy", "cosine_similarity", "get", "hinge", "huber", "kl_divergence",
    "log_cosh", "mae", "mean_absolute_error", "mean_squared_error", "mse", "poisson",
    "sparse_categorical_crossentropy",
]  # fmt: skip


def _matched(name: str, y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Targets in the dtype of the predictions, with or without a last axis of length 1 as they."""
    scores = convert(y_pred)
    if scores.dtype.kind in "biu":
        from gradtape.tf.casting import cast

        scores = cast(scores, "float32")
    given = convert(y_true, hint=scores.dtype)
    if given.spec.dtype != scores.spec.dtype:
        from gradtape.tf.casting import cast

        given = cast(given, scores.dtype)
    mine, theirs = given.spec.shape, scores.spec.shape
    if mine != theirs and (mine == (*theirs, 1) or (*mine, 1) == theirs):
        given = reshape(given, theirs)
    if given.spec.shape != theirs:
        raise ShapeError(
            f"{name}: targets of shape {mine} and predictions of shape {theirs} differ. "
            "Reshape one of them."
        )
    return given, scores


def _loss(name: str, function: Callable[..., Any], doc: str, result: str) -> Any:
    @operation
    def loss(y_true: Any, y_pred: Any, *args: Any, **kwargs: Any) -> Tensor:
        return function(*_matched(name, y_true, y_pred), *args, reduction="none", **kwargs)

    loss.__name__ = loss.__qualname__ = name
    loss.__module__ = __name__
    loss.__doc__ = (
        f"{doc}\n\n    >>> tf.keras.losses.{name}([[0.0, 1.0]], [[0.5, 0.5]])"
        f".numpy().round(4).tolist()\n    [{result}]\n    "
    )
    return loss


mean_squared_error = _loss(
    "mean_squared_error", core.mean_squared_error, "The mean of squared differences.", "0.25"
)
mean_absolute_error = _loss(
    "mean_absolute_error", core.mean_absolute_error, "The mean of absolute differences.", "0.5"
)
huber = _loss("huber", core.huber, "Squared differences up to delta, linear beyond.", "0.125")
log_cosh = _loss("log_cosh", core.log_cosh, "The mean of log(cosh(difference)).", "0.1201")
hinge = _loss("hinge", core.hinge, "The mean of max(1 - t * p, 0).", "1.0")
kl_divergence = _loss("kl_divergence", core.kl_divergence, "The sum of t * log(t / p).", "0.6931")
cosine_similarity = _loss(
    "cosine_similarity", core.cosine_similarity, "Minus the cosine of the angle.", "-0.7071"
)
binary_crossentropy = _loss(
    "binary_crossentropy", core.binary_crossentropy,
    "The mean of -(t log(p) + (1 - t) log(1 - p)).", "0.6931",
)  # fmt: skip
categorical_crossentropy = _loss(
    "categorical_crossentropy", core.categorical_crossentropy, "The sum of -t log(p).", "0.6931"
)
MSE = mse = mean_squared_error
MAE = mae = mean_absolute_error


@operation
def poisson(y_true: Any, y_pred: Any) -> Tensor:
    """The mean of p - t log(p).

    >>> tf.keras.losses.poisson([[1.0]], [[1.0]]).numpy().tolist()
    [1.0]
    """
    given, scores = _matched("poisson", y_true, y_pred)
    return mean(scores - given * log(scores + 1e-7), axis=-1)


@operation
def sparse_categorical_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, ignore_class: Any = None, axis: int = -1
) -> Tensor:
    """-log(p) of the class that an integer names.

    >>> tf.keras.losses.sparse_categorical_crossentropy([1], [[0.5, 0.5]]).numpy().round(4).tolist()
    [0.6931]
    """
    if ignore_class is not None:
        raise ValueError("sparse_categorical_crossentropy: ignore_class is not covered. Mask it.")
    labels = convert(y_true)
    if labels.dtype.kind == "f":
        from gradtape.tf.casting import cast

        labels = cast(labels, "int64")
    labels = as_indices("sparse_categorical_crossentropy", labels)
    return core.sparse_categorical_crossentropy(
        labels, convert(y_pred), from_logits, axis, reduction="none"
    )


class Reduction:
    """What becomes of the examples, under the names that Keras had for it.

    >>> tf.keras.losses.Reduction.NONE
    'none'
    """

    NONE = "none"
    SUM = "sum"
    SUM_OVER_BATCH_SIZE = "sum_over_batch_size"
    AUTO = "sum_over_batch_size"


_REDUCTIONS = ("sum_over_batch_size", "mean", "auto", "sum", "none", None)


class Loss:
    """A loss that reduces over the examples; derive your own with `call(y_true, y_pred)`.

    >>> class Signed(tf.keras.losses.Loss):
    ...     def call(self, y_true, y_pred):
    ...         return tf.reduce_mean(y_pred - y_true, axis=-1)
    >>> Signed()([[1.0, 2.0]], [[2.0, 4.0]]).numpy().item()
    1.5
    """

    def __init__(
        self, reduction: Any = "sum_over_batch_size", name: str | None = None, dtype: Any = None
    ) -> None:
        if reduction not in _REDUCTIONS:
            raise ValueError(f"{reduction!r} is no reduction. Use one of {_REDUCTIONS}.")
        self.reduction = reduction
        self.name = name or type(self).__name__.lower()

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """The loss of each example."""
        raise NotImplementedError(f"{type(self).__name__}: a loss needs `call(y_true, y_pred)`.")

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """The mean over the examples, or their sum, or each."""
        y_true, y_pred = _as_tensors(y_true, y_pred)
        return _reduced(self.call(y_true, y_pred), sample_weight, self.reduction)


@operation
def _as_tensors(y_true: Any, y_pred: Any) -> tuple[Tensor, Tensor]:
    """Targets keep being integers, if they are; floats take the dtype of the predictions."""
    scores = convert(y_pred)
    given = y_true if hasattr(y_true, "dtype") else convert(y_true)
    return convert(given, hint=scores.dtype if given.dtype.kind == "f" else None), scores


@operation
def _reduced(loss: Any, sample_weight: Any, reduction: Any) -> Any:
    loss = convert(loss)
    if sample_weight is not None:
        weights = convert(sample_weight, hint=loss.dtype)
        if weights.ndim == loss.ndim + 1 and weights.spec.shape[-1] == 1:
            weights = weights[..., 0]
        loss = loss * weights
    if reduction in ("none", None):
        return loss
    return total(loss) if reduction == "sum" else total(loss) / float(max(loss.spec.size, 1))


def _class(name: str, function: Any, options: tuple[str, ...], doc: str) -> Any:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        known = dict(zip(options, args, strict=False))
        rest = args[len(options) :]
        known.update({key: kwargs.pop(key) for key in options if key in kwargs})
        self._options = known
        Loss.__init__(self, *rest, **{"name": name.lower(), **kwargs})

    def call(self: Any, y_true: Any, y_pred: Any) -> Any:
        return function(y_true, y_pred, **self._options)

    arguments = "[1], [[0.5, 0.5]]" if "Sparse" in name else "[[0.0, 1.0]], [[0.5, 0.5]]"
    example = f">>> tf.keras.losses.{name}()({arguments}).shape\n    TensorShape([])"
    members = {
        "__init__": __init__, "call": call, "__doc__": f"{doc}\n\n    {example}\n    ",
        "__module__": __name__,
    }  # fmt: skip
    return type(name, (Loss,), members)


MeanSquaredError = _class("MeanSquaredError", mean_squared_error, (), "Squared differences.")
MeanAbsoluteError = _class("MeanAbsoluteError", mean_absolute_error, (), "Absolute differences.")
Huber = _class("Huber", huber, ("delta",), "Squared differences up to delta, linear beyond.")
LogCosh = _class("LogCosh", log_cosh, (), "log(cosh(difference)).")
Hinge = _class("Hinge", hinge, (), "max(1 - t * p, 0).")
KLDivergence = _class("KLDivergence", kl_divergence, (), "t * log(t / p).")
Poisson = _class("Poisson", poisson, (), "p - t log(p).")
CosineSimilarity = _class("CosineSimilarity", cosine_similarity, ("axis",), "Minus the cosine.")
BinaryCrossentropy = _class(
    "BinaryCrossentropy", binary_crossentropy, ("from_logits", "label_smoothing"),
    "Cross-entropy of labels 0 and 1.",
)  # fmt: skip
CategoricalCrossentropy = _class(
    "CategoricalCrossentropy", categorical_crossentropy,
    ("from_logits", "label_smoothing", "axis"), "Cross-entropy of distributions.",
)  # fmt: skip
SparseCategoricalCrossentropy = _class(
    "SparseCategoricalCrossentropy", sparse_categorical_crossentropy, ("from_logits",),
    "Cross-entropy of integer labels.",
)  # fmt: skip

_CLASSES = {
    "mean_squared_error": MeanSquaredError, "mse": MeanSquaredError,
    "mean_absolute_error": MeanAbsoluteError, "mae": MeanAbsoluteError, "huber": Huber,
    "log_cosh": LogCosh, "hinge": Hinge, "kl_divergence": KLDivergence, "poisson": Poisson,
    "cosine_similarity": CosineSimilarity, "binary_crossentropy": BinaryCrossentropy,
    "categorical_crossentropy": CategoricalCrossentropy,
    "sparse_categorical_crossentropy": SparseCategoricalCrossentropy,
}  # fmt: skip


def get(identifier: Any) -> Any:
    """A loss by name; functions and losses as they are.

    >>> type(tf.keras.losses.get("mse")).__name__
    'MeanSquaredError'
    """
    if identifier is None or callable(identifier):
        return identifier
    if identifier not in _CLASSES:
        raise ValueError(f"loss {identifier!r} is unknown. There are {', '.join(_CLASSES)}.")
    return _CLASSES[identifier]()


__getattr__ = attribute_finder(__name__, globals())
