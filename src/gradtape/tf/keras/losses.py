"""Losses as functions, one for each example, and as classes that reduce them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from gradtape import (
    abs as size,
    all as reduce_all,
    equal,
    log,
    logical_and,
    logical_or,
    max as largest,
    maximum,
    mean,
    moveaxis,
    not_equal,
    reshape,
    square,
    sum as total,
    where,
)
from gradtape.errors import ShapeError
from gradtape.libraries import check_exports
from gradtape.nn import losses as core
from gradtape.pytree import map_leaves
from gradtape.tf.base.casting import cast
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.dispatch import documented, operation
from gradtape.tf.base.dtypes import as_dtype, float32
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.keras.option_kinds import checked, parameter
from gradtape.tf.keras.weights import snake_case
from gradtape.tf.ops.indexing import as_indices
from gradtape.typing import Probability

if TYPE_CHECKING:
    from gradtape.tf.base.types import TensorLike

__all__ = [
    "BinaryCrossentropy",
    "CategoricalCrossentropy",
    "CategoricalHinge",
    "CosineSimilarity",
    "Hinge",
    "Huber",
    "KLD",
    "KLDivergence",
    "LogCosh",
    "Loss",
    "LossFunctionWrapper",
    "MAE",
    "MAPE",
    "MSE",
    "MSLE",
    "MeanAbsoluteError",
    "MeanAbsolutePercentageError",
    "MeanSquaredError",
    "MeanSquaredLogarithmicError",
    "Poisson",
    "Reduction",
    "SparseCategoricalCrossentropy",
    "SquaredHinge",
    "binary_crossentropy",
    "categorical_crossentropy",
    "categorical_hinge",
    "cosine_similarity",
    "deserialize",
    "get",
    "hinge",
    "huber",
    "kl_divergence",
    "kld",
    "kullback_leibler_divergence",
    "log_cosh",
    "logcosh",
    "mae",
    "mape",
    "mean_absolute_error",
    "mean_absolute_percentage_error",
    "mean_squared_error",
    "mean_squared_logarithmic_error",
    "mse",
    "msle",
    "poisson",
    "serialize",
    "sparse_categorical_crossentropy",
    "squared_hinge",
]


def _matched(name: str, y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Targets in the dtype of the predictions, with or without a last axis of length 1 as they."""
    scores = convert(y_pred)
    if scores.dtype.kind in "biu":
        scores = cast(scores, "float32")
    given = convert(y_true, hint=scores.dtype)
    if given.spec.dtype != scores.spec.dtype:
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


def _loss(
    function: Callable[..., Any], doc: str, result: str, name: str = ""
) -> Callable[..., Tensor]:
    """A row for a loss of each example, by the name of the function unless there is another."""
    name = name or function.__name__

    @operation
    def loss(y_true: Any, y_pred: Any, *args: Any, **kwargs: Any) -> Tensor:
        return function(*_matched(name, y_true, y_pred), *args, reduction="none", **kwargs)

    example = f"round(tf.keras.losses.{name}([[0.0, 1.0]], [[0.5, 0.5]]).numpy().item(), 4)"
    return documented(loss, __name__, doc, example, result)


mean_squared_error = _loss(core.mean_squared_error, "The mean of squared differences.", "0.25")
mean_absolute_error = _loss(core.mean_absolute_error, "The mean of absolute differences.", "0.5")
huber = _loss(core.huber, "Squared differences up to delta, linear beyond.", "0.125")
log_cosh = _loss(core.log_cosh, "The mean of log(cosh(difference)).", "0.1201")
hinge = _loss(core.hinge, "The mean of max(1 - t * p, 0).", "1.0")
kl_divergence = _loss(core.kl_divergence, "The sum of t * log(t / p).", "0.6931")
cosine_similarity = _loss(core.cosine_similarity, "Minus the cosine of the angle.", "-0.7071")


def _binary(
    y_true: Tensor,
    y_pred: Tensor,
    from_logits: bool = False,
    label_smoothing: Probability = 0.0,
    axis: int = -1,
    *,
    reduction: str,
) -> Tensor:
    if axis != -1:
        y_true, y_pred = (moveaxis(y, axis, -1) for y in (y_true, y_pred))
    return core.binary_crossentropy(
        y_true, y_pred, from_logits, label_smoothing, reduction=reduction
    )


binary_crossentropy = _loss(
    _binary, "The mean of -(t log(p) + (1 - t) log(1 - p)).", "0.6931", "binary_crossentropy"
)
categorical_crossentropy = _loss(core.categorical_crossentropy, "The sum of -t log(p).", "0.6931")


def _own(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A formula of targets and predictions; the mean along the last axis."""

    def loss(y_true: Tensor, y_pred: Tensor, reduction: str) -> Tensor:
        return mean(function(y_true, y_pred), axis=-1)

    return loss


def _signed(t: Tensor) -> Tensor:
    """Targets as -1 and 1, if they are 0 and 1."""
    binary = reduce_all(logical_or(equal(t, 0.0), equal(t, 1.0)))
    return where(binary, 2.0 * t - 1.0, t)


def _categorical_hinge(y_true: Tensor, y_pred: Tensor, reduction: str) -> Tensor:
    right = total(y_true * y_pred, axis=-1)
    wrong = largest((1.0 - y_true) * y_pred, axis=-1)
    return maximum(wrong - right + 1.0, 0.0)


mean_absolute_percentage_error = _loss(
    _own(lambda t, p: 100.0 * size((t - p) / maximum(size(t), 1e-7))),
    "The mean of differences as percentages of the targets.",
    "2500000...",
    "mean_absolute_percentage_error",
)
mean_squared_logarithmic_error = _loss(
    _own(lambda t, p: square(log(maximum(p, 1e-7) + 1.0) - log(maximum(t, 1e-7) + 1.0))),
    "The mean of squared differences of log(1 + x).",
    "0.1236",
    "mean_squared_logarithmic_error",
)
squared_hinge = _loss(
    _own(lambda t, p: square(maximum(1.0 - _signed(t) * p, 0.0))),
    "The mean of max(1 - t * p, 0) squared.",
    "1.25",
    "squared_hinge",
)
categorical_hinge = _loss(
    _categorical_hinge, "max(wrong - right + 1, 0).", "1.0", "categorical_hinge"
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

    >>> round(tf.keras.losses.poisson([[1.0]], [[1.0]]).numpy().item(), 4)
    1.0
    """
    given, scores = _matched("poisson", y_true, y_pred)
    return mean(scores - given * log(scores + 1e-7), axis=-1)


@operation
def sparse_categorical_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, ignore_class: Any = None, axis: int = -1
) -> Tensor:
    """-log(p) of the class that an integer names.

    >>> loss = tf.keras.losses.sparse_categorical_crossentropy([1], [[0.5, 0.5]])
    >>> round(loss.numpy().item(), 4)
    0.6931
    """
    labels = convert(y_true)
    if labels.dtype.kind == "f":
        labels = cast(labels, "int64")
    labels = as_indices("sparse_categorical_crossentropy", labels)
    scores = convert(y_pred)
    if labels.ndim == scores.ndim and labels.spec.shape[-1] == 1:
        labels = labels[..., 0]
    if ignore_class is not None:
        counted = not_equal(labels, ignore_class)
        labels = where(counted, labels, 0)
    loss = core.sparse_categorical_crossentropy(labels, scores, from_logits, axis, reduction="none")
    return loss if ignore_class is None else where(counted, loss, 0.0)


class Reduction:
    """What becomes of the examples, under the names that Keras had for it.

    >>> tf.keras.losses.Reduction.NONE
    'none'
    """

    NONE = "none"
    SUM = "sum"
    SUM_OVER_BATCH_SIZE = "sum_over_batch_size"
    AUTO = "sum_over_batch_size"


_REDUCTIONS = (
    "sum_over_batch_size",
    "mean",
    "mean_with_sample_weight",
    "auto",
    "sum",
    "none",
    None,
)


class Loss:
    """A loss that reduces over the examples; derive your own with `call(y_true, y_pred)`.

    >>> class Signed(tf.keras.losses.Loss):
    ...     def call(self, y_true, y_pred):
    ...         return tf.reduce_mean(y_pred - y_true, axis=-1)
    >>> Signed()([[1.0, 2.0]], [[2.0, 4.0]]).numpy().item()
    1.5
    """

    # Whether targets stay integers, if they are; else they take the dtype of the loss.
    _takes_labels = False

    def __init__(
        self,
        name: str | None = None,
        reduction: str | None = "sum_over_batch_size",
        dtype: Any = None,
    ) -> None:
        if name in _REDUCTIONS and name is not None:
            # Older Keras has the reduction first.
            name, reduction = (None if reduction in _REDUCTIONS else reduction), name
        if reduction not in _REDUCTIONS:
            raise ValueError(f"{reduction!r} is not a reduction. Use one of {_REDUCTIONS}.")
        self.reduction = reduction
        self.name = name or snake_case(type(self).__name__)
        self._dtype = as_dtype(float32 if dtype is None else dtype)

    @property
    def dtype(self) -> str:
        """The name of the dtype in which the loss is computed."""
        return str(self._dtype.name)

    def call(self, y_true: Any, y_pred: Any) -> Tensor:
        """The loss of each example."""
        raise NotImplementedError(f"{type(self).__name__}: a loss needs `call(y_true, y_pred)`.")

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Tensor:
        """The mean over the examples, or their sum, or each."""
        mask = getattr(y_pred, "_keras_mask", None)
        y_true, y_pred = _as_tensors(y_true, y_pred, self._dtype, self._takes_labels)
        counted = self.counted(y_true)
        if mask is not None:
            counted = mask if counted is None else logical_and(counted, mask)
        return _reduced(self.call(y_true, y_pred), sample_weight, self.reduction, counted)

    def counted(self, y_true: Any) -> Tensor | None:
        """Which examples count, as booleans; None if all do."""
        return None

    def get_config(self) -> dict[str, Any]:
        """The arguments that make an equal loss."""
        return {"name": self.name, "reduction": self.reduction}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The loss that a configuration describes."""
        return cls(**config)


@operation
def _as_tensors(y_true: Any, y_pred: Any, dtype: Any, labels: bool) -> Any:
    """Targets and predictions, or nests of them, as tensors of the dtype of the loss."""

    def tensor(y: TensorLike, whole: bool) -> Tensor:
        y = convert(y)
        return y if whole and y.dtype.is_integer else cast(y, dtype)

    return tuple(
        map_leaves(
            lambda leaf, whole=whole: tensor(leaf, whole), y if isinstance(y, dict) else convert(y)
        )
        for y, whole in ((y_true, labels), (y_pred, False))
    )


@operation
def _reduced(loss: Any, sample_weight: Any, reduction: Any, counted: Any = None) -> Tensor:
    loss = convert(loss)
    weights = None if sample_weight is None else cast(convert(sample_weight), loss.dtype)
    if counted is not None:
        shares = cast(counted, loss.dtype)
        shares = shares[..., 0] if shares.ndim == loss.ndim + 1 else shares
        if reduction in ("mean", "sum_over_batch_size", "auto"):
            # The mean is over those that count; there may be none.
            shares = shares * (float(loss.spec.size) / maximum(total(shares), 1.0))
        weights = shares if weights is None else _beside(shares, weights)
    if weights is not None:
        loss = _beside(loss, weights)
    if reduction in ("none", None) or not loss.ndim:
        return loss
    if reduction == "sum":
        return total(loss)
    if reduction == "mean_with_sample_weight" and weights is not None:
        everything = total(weights)
        return where(equal(everything, 0.0), 0.0, total(loss) / everything)
    return total(loss) / float(max(loss.spec.size, 1))


def _beside(loss: Tensor, weights: Tensor) -> Tensor:
    """Values times weights, one of which may have a last axis of length 1 more."""
    loss, weights = _aligned(loss, weights)
    return loss * weights


def _aligned(a: Tensor, b: Tensor) -> tuple[Any, Any]:
    """Both with as many axes, if one has a last axis of length 1 more; columns stay columns."""
    if a.ndim == b.ndim + 1 and a.shape[-1] == 1:
        return (a, b[..., None]) if b.ndim == 1 else (a[..., 0], b)
    if b.ndim == a.ndim + 1 and b.shape[-1] == 1:
        return (a[..., None], b) if a.ndim == 1 else (a, b[..., 0])
    return a, b


class LossFunctionWrapper(Loss):
    """A function of targets and predictions, as a loss.

    >>> loss = tf.keras.losses.LossFunctionWrapper(lambda t, p: tf.abs(t - p))
    >>> loss([1.0, 2.0], [2.0, 4.0]).numpy().item()
    1.5
    """

    def __init__(
        self,
        fn: Any,
        reduction: Any = "sum_over_batch_size",
        name: Any = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.fn, self._fn_kwargs = fn, kwargs

    def call(self, y_true: Any, y_pred: Any) -> Tensor:
        if hasattr(y_true, "ndim") and hasattr(y_pred, "ndim"):
            y_true, y_pred = _aligned(y_true, y_pred)
        return self.fn(y_true, y_pred, **self._fn_kwargs)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "fn": self.fn, **self._fn_kwargs}


def _class(name: str, function: Callable[..., Tensor], doc: str, **options: Any) -> Any:
    """A loss of a function, with its options in their order."""
    options = options if "reduction" in options else {**options, "reduction": None}
    defaults = {
        **options,
        "reduction": "sum_over_batch_size",
        "name": function.__name__,
        "dtype": None,
    }
    signature = inspect.Signature([parameter(key, value) for key, value in defaults.items()])

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        given = checked(type(self).__name__, signature, args, kwargs)
        shared = {key: given.pop(key) for key in ("name", "reduction", "dtype")}
        self._options = given
        Loss.__init__(self, **shared)

    def call(self: Any, y_true: Any, y_pred: Any) -> Tensor:
        """The loss of each example."""
        return function(y_true, y_pred, **self._options)

    def get_config(self: Any) -> dict[str, Any]:
        """The arguments that make an equal loss."""
        return {**Loss.get_config(self), **self._options}

    arguments = "[1], [[0.5, 0.5]]" if "Sparse" in name else "[[0.0, 1.0]], [[0.5, 0.5]]"
    example = f">>> tf.keras.losses.{name}()({arguments}).shape\n    TensorShape([])"
    members = {
        "__init__": __init__,
        "call": call,
        "__doc__": f"{doc}\n\n    {example}\n    ",
        "__module__": __name__,
        "__signature__": signature,
        "get_config": get_config,
        "_takes_labels": "Sparse" in name,
    }
    return type(name, (Loss,), members)


MeanSquaredError = _class("MeanSquaredError", mean_squared_error, "Squared differences.")
MeanAbsoluteError = _class("MeanAbsoluteError", mean_absolute_error, "Absolute differences.")
Huber = _class("Huber", huber, "Squared differences up to delta, linear beyond.", delta=1.0)
LogCosh = _class("LogCosh", log_cosh, "log(cosh(difference)).")
Hinge = _class("Hinge", hinge, "max(1 - t * p, 0).")
SquaredHinge = _class("SquaredHinge", squared_hinge, "max(1 - t * p, 0) squared.")
CategoricalHinge = _class("CategoricalHinge", categorical_hinge, "max(wrong - right + 1, 0).")
MeanAbsolutePercentageError = _class(
    "MeanAbsolutePercentageError", mean_absolute_percentage_error, "Differences in percent."
)
MeanSquaredLogarithmicError = _class(
    "MeanSquaredLogarithmicError", mean_squared_logarithmic_error, "Squared ratios, roughly."
)
KLDivergence = _class("KLDivergence", kl_divergence, "t * log(t / p).")
Poisson = _class("Poisson", poisson, "p - t log(p).")
CosineSimilarity = _class("CosineSimilarity", cosine_similarity, "Minus the cosine.", axis=-1)
BinaryCrossentropy = _class(
    "BinaryCrossentropy",
    binary_crossentropy,
    "Cross-entropy of labels 0 and 1.",
    from_logits=False,
    label_smoothing=0.0,
    axis=-1,
)
CategoricalCrossentropy = _class(
    "CategoricalCrossentropy",
    categorical_crossentropy,
    "Cross-entropy of distributions.",
    from_logits=False,
    label_smoothing=0.0,
    axis=-1,
)
SparseCategoricalCrossentropy = _class(
    "SparseCategoricalCrossentropy",
    sparse_categorical_crossentropy,
    "Cross-entropy of integer labels.",
    from_logits=False,
    ignore_class=None,
    reduction=None,
    axis=-1,
)


def _counted_labels(self: Any, y_true: Any) -> Tensor | None:
    """Labels other than the one to ignore."""
    ignored = self._options["ignore_class"]
    return None if ignored is None else y_true != ignored


SparseCategoricalCrossentropy.counted = _counted_labels

_CLASSES = {
    "mean_squared_error": MeanSquaredError,
    "mse": MeanSquaredError,
    "mean_absolute_error": MeanAbsoluteError,
    "mae": MeanAbsoluteError,
    "huber": Huber,
    "log_cosh": LogCosh,
    "hinge": Hinge,
    "kl_divergence": KLDivergence,
    "poisson": Poisson,
    "cosine_similarity": CosineSimilarity,
    "binary_crossentropy": BinaryCrossentropy,
    "categorical_crossentropy": CategoricalCrossentropy,
    "sparse_categorical_crossentropy": SparseCategoricalCrossentropy,
    "categorical_hinge": CategoricalHinge,
    "kld": KLDivergence,
    "logcosh": LogCosh,
    "mape": MeanAbsolutePercentageError,
    "msle": MeanSquaredLogarithmicError,
    "mean_absolute_percentage_error": MeanAbsolutePercentageError,
    "mean_squared_logarithmic_error": MeanSquaredLogarithmicError,
    "squared_hinge": SquaredHinge,
}


def get(identifier: Any) -> Callable[..., Tensor]:
    """A loss by name; functions and losses as they are.

    >>> type(tf.keras.losses.get("mse")).__name__
    'MeanSquaredError'
    """
    if identifier is None or callable(identifier):
        return identifier
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if identifier not in _CLASSES and isinstance(globals().get(identifier), type):
        return globals()[identifier]()
    if identifier not in _CLASSES:
        raise ValueError(f"loss {identifier!r} is unknown. There are {', '.join(_CLASSES)}.")
    return _CLASSES[identifier]()


def serialize(loss: Any) -> Any:
    """The class and the configuration of a loss; a function by its name.

    >>> tf.keras.losses.serialize(tf.keras.losses.Huber())["class_name"]
    'Huber'
    """
    if not isinstance(loss, Loss):
        return loss.__name__
    return {"class_name": type(loss).__name__, "config": loss.get_config()}


def deserialize(name: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    """The loss that `serialize` described.

    >>> tf.keras.losses.deserialize({"class_name": "Huber", "config": {"delta": 0.5}}).name
    'huber'
    """
    if isinstance(name, str):
        return (custom_objects or {}).get(name) or globals()[name]
    kind = (custom_objects or {}).get(name["class_name"]) or globals()[name["class_name"]]
    return kind.from_config(name["config"])


check_exports(globals(), __all__)
