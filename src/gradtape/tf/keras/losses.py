"""Losses as functions, one for each example, and as classes that reduce them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradtape.errors import ShapeError
from gradtape.nn import losses as core
from gradtape.ops.arithmetic import equal, logical_or, maximum, where
from gradtape.ops.complexes import abs as size
from gradtape.ops.elementwise import log, square
from gradtape.ops.movement import moveaxis, reshape
from gradtape.ops.reduction import all as reduce_all
from gradtape.ops.reduction import max as largest
from gradtape.ops.reduction import mean
from gradtape.ops.reduction import sum as total
from gradtape.tf.conversion import convert
from gradtape.tf.dispatch import operation
from gradtape.tf.indexing import as_indices
from gradtape.tf.suggestions import attribute_finder
from gradtape.tf.tensor import Tensor

__all__ = [
    "BinaryCrossentropy", "CategoricalCrossentropy", "CategoricalHinge", "CosineSimilarity",
    "Hinge", "Huber", "KLD", "KLDivergence", "LogCosh", "Loss", "MAE", "MAPE", "MSE", "MSLE",
    "MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanSquaredError",
    "MeanSquaredLogarithmicError", "Poisson", "Reduction", "SparseCategoricalCrossentropy",
    "SquaredHinge", "binary_crossentropy", "categorical_crossentropy", "categorical_hinge",
    "cosine_similarity", "get", "hinge", "huber", "kl_divergence", "kld",
    "kullback_leibler_divergence", "log_cosh", "logcosh", "mae", "mape", "mean_absolute_error",
    "mean_absolute_percentage_error", "mean_squared_error", "mean_squared_logarithmic_error", "mse",
    "msle", "poisson", "sparse_categorical_crossentropy", "squared_hinge",
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


def _binary(
    y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: float = 0.0,
    axis: int = -1, *, reduction: str,
) -> Any:  # fmt: skip
    if axis != -1:
        y_true, y_pred = (moveaxis(y, axis, -1) for y in (y_true, y_pred))
    return core.binary_crossentropy(
        y_true, y_pred, from_logits, label_smoothing, reduction=reduction
    )


binary_crossentropy = _loss(
    "binary_crossentropy", _binary,
    "The mean of -(t log(p) + (1 - t) log(1 - p)).", "0.6931",
)  # fmt: skip
categorical_crossentropy = _loss(
    "categorical_crossentropy", core.categorical_crossentropy, "The sum of -t log(p).", "0.6931"
)


def _own(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A formula of targets and predictions; the mean along the last axis."""

    def loss(y_true: Any, y_pred: Any, reduction: str) -> Any:
        return mean(function(y_true, y_pred), axis=-1)

    return loss


def _share(t: Any, p: Any) -> Any:
    return 100.0 * size((t - p) / maximum(size(t), 1e-7))


def _logarithms(t: Any, p: Any) -> Any:
    return square(log(maximum(p, 1e-7) + 1.0) - log(maximum(t, 1e-7) + 1.0))


def _signed(t: Any) -> Any:
    """Targets as -1 and 1, if they are 0 and 1."""
    binary = reduce_all(logical_or(equal(t, 0.0), equal(t, 1.0)))
    return where(binary, 2.0 * t - 1.0, t)


def _categorical_hinge(y_true: Any, y_pred: Any, reduction: str) -> Any:
    right = total(y_true * y_pred, axis=-1)
    wrong = largest((1.0 - y_true) * y_pred, axis=-1)
    return maximum(wrong - right + 1.0, 0.0)


mean_absolute_percentage_error = _loss(
    "mean_absolute_percentage_error", _own(_share),
    "The mean of differences as percentages of the targets.", "250000000.0",
)  # fmt: skip
mean_squared_logarithmic_error = _loss(
    "mean_squared_logarithmic_error", _own(_logarithms),
    "The mean of squared differences of log(1 + x).", "0.1236",
)  # fmt: skip
squared_hinge = _loss(
    "squared_hinge", _own(lambda t, p: square(maximum(1.0 - _signed(t) * p, 0.0))),
    "The mean of max(1 - t * p, 0) squared.", "1.25",
)  # fmt: skip
categorical_hinge = _loss(
    "categorical_hinge", _categorical_hinge, "max(wrong - right + 1, 0).", "1.0"
)
MAPE = mape = mean_absolute_percentage_error
MSLE = msle = mean_squared_logarithmic_error
KLD = kld = kullback_leibler_divergence = kl_divergence
logcosh = log_cosh
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
        self, name: Any = None, reduction: Any = "sum_over_batch_size", dtype: Any = None
    ) -> None:
        if name in _REDUCTIONS and name is not None:
            # Older Keras has the reduction first.
            name, reduction = (None if reduction in _REDUCTIONS else reduction), name
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
        rest = dict(zip(("reduction", "name", "dtype"), args[len(options) :], strict=False))
        known.update({key: kwargs.pop(key) for key in options if key in kwargs})
        self._options = known
        Loss.__init__(self, **{"name": function.__name__, **rest, **kwargs})

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
SquaredHinge = _class("SquaredHinge", squared_hinge, (), "max(1 - t * p, 0) squared.")
CategoricalHinge = _class("CategoricalHinge", categorical_hinge, (), "max(wrong - right + 1, 0).")
MeanAbsolutePercentageError = _class(
    "MeanAbsolutePercentageError", mean_absolute_percentage_error, (), "Differences in percent."
)
MeanSquaredLogarithmicError = _class(
    "MeanSquaredLogarithmicError", mean_squared_logarithmic_error, (), "Squared ratios, roughly."
)
KLDivergence = _class("KLDivergence", kl_divergence, (), "t * log(t / p).")
Poisson = _class("Poisson", poisson, (), "p - t log(p).")
CosineSimilarity = _class("CosineSimilarity", cosine_similarity, ("axis",), "Minus the cosine.")
BinaryCrossentropy = _class(
    "BinaryCrossentropy", binary_crossentropy, ("from_logits", "label_smoothing", "axis"),
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
    "categorical_hinge": CategoricalHinge, "kld": KLDivergence, "logcosh": LogCosh,
    "mape": MeanAbsolutePercentageError, "msle": MeanSquaredLogarithmicError,
    "mean_absolute_percentage_error": MeanAbsolutePercentageError,
    "mean_squared_logarithmic_error": MeanSquaredLogarithmicError, "squared_hinge": SquaredHinge,
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
