"""Metric: what all metrics share; and means, of which most are made."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Self

from gradtape.errors import ShapeError
from gradtape.tf.base.casting import cast
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.dtypes import as_dtype, float32
from gradtape.tf.keras.weights import snake_case, weight
from gradtape.tf.math import divide_no_nan
from gradtape.tf.ops.arrays import broadcast_to, expand_dims
from gradtape.tf.ops.creation import zeros
from gradtape.tf.ops.reductions import reduce_mean, reduce_sum
from gradtape.tf.programs.variable import Variable

if TYPE_CHECKING:
    from gradtape.tf.base.tensor import Tensor


class Metric:
    """A number gathered over batches: `update_state`, `result`, `reset_state`.

    Its state is in variables, so that it can be updated inside a `tf.function` too.

    >>> class Largest(tf.keras.metrics.Metric):
    ...     def __init__(self, name="largest", **kwargs):
    ...         super().__init__(name=name, **kwargs)
    ...         self.found = self.add_weight(name="found", initializer="zeros")
    ...
    ...     def update_state(self, values, sample_weight=None):
    ...         self.found.assign(tf.maximum(self.found, tf.reduce_max(values)))
    ...
    ...     def result(self):
    ...         return self.found.value()
    >>> metric = Largest()
    >>> metric([1.0, 3.0]).numpy().item(), metric([2.0]).numpy().item()
    (3.0, 3.0)
    """

    _arguments: tuple[Any, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        made = super().__new__(cls)
        # What get_config tells, if nobody overrides it.
        made.__dict__["_arguments"] = (args, kwargs)
        return made

    def __init__(self, dtype: Any = None, name: str | None = None) -> None:
        self.name = name or snake_case(type(self).__name__)
        self._dtype = as_dtype(float32 if dtype is None else dtype)

    @property
    def dtype(self) -> str:
        """The name of the dtype in which the state is kept."""
        return str(self._dtype.name)

    def add_variable(
        self,
        shape: Any,
        initializer: Any,
        dtype: Any = None,
        aggregation: Any = "sum",
        name: str | None = None,
    ) -> Variable:
        """One more part of the state. There is one replica, so nothing is aggregated."""
        kind = self._dtype if dtype is None else as_dtype(dtype)
        return weight(shape, "zeros" if initializer is None else initializer, kind, False, name)

    def add_weight(
        self, shape: Any = (), initializer: Any = None, dtype: Any = None, name: str | None = None
    ) -> Variable:
        """One more part of the state; older Keras has the name first, which works too."""
        if isinstance(shape, str):
            shape, name = (() if name is None or isinstance(name, str) else name), shape
        return self.add_variable(shape, initializer, dtype, name=name)

    @property
    def variables(self) -> list[Variable]:
        """The state, that of metrics inside included."""
        found: list[Variable] = []
        for value in vars(self).values():
            for part in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(part, Metric):
                    found += part.variables
                elif isinstance(part, Variable):
                    found.append(part)
        return found

    weights = variables

    def reset_state(self) -> None:
        """Begin anew: all state is 0."""
        for variable in self.variables:
            variable.assign(zeros(variable.shape, variable.dtype))

    def reset_states(self) -> None:
        """The same, under its old name."""
        self.reset_state()

    def update_state(self, *args: Any, **kwargs: Any) -> None:
        """Count a batch in."""
        raise NotImplementedError(f"{type(self).__name__}: a metric needs `update_state`.")

    def result(self) -> Any:
        """The number so far."""
        raise NotImplementedError(f"{type(self).__name__}: a metric needs `result`.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Count a batch in, and give the number so far."""
        self.update_state(*args, **kwargs)
        return self.result()

    def get_config(self) -> dict[str, Any]:
        """The arguments that make an equal metric, without its state."""
        args, kwargs = self._arguments
        bound = inspect.signature(type(self)).bind(*args, **kwargs)
        bound.apply_defaults()
        found: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = bound.signature.parameters[name].kind
            found.update(value if kind is inspect.Parameter.VAR_KEYWORD else {name: value})
        return {**found, "name": self.name, "dtype": self.dtype}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The metric that a configuration describes."""
        return cls(**config)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name}>"


def of_examples(values: Any, sample_weight: Any, reduce: Any, dtype: Any) -> tuple[Any, Any]:
    """One weighted value for each example, and the weights of the examples or None."""
    values = cast(convert(values), dtype)
    if sample_weight is not None:
        weights = cast(convert(sample_weight), dtype)
        if weights.ndim == values.ndim + 1 and weights.shape[-1] == 1:
            weights = weights[..., 0]
        elif weights.ndim == values.ndim - 1 and values.shape[-1] == 1 and values.ndim > 1:
            weights = expand_dims(weights, -1)
        if weights.ndim > values.ndim:
            raise ShapeError(
                f"metric: weights of shape {tuple(weights.shape)} for values of shape "
                f"{tuple(values.shape)}. Give one weight for each example."
            )
        if values.ndim > weights.ndim:
            values = reduce(values, axis=list(range(weights.ndim, values.ndim)))
        weights = broadcast_to(weights, values.shape)
        values = values * weights
        if weights.ndim > 1:
            weights = reduce(weights, axis=list(range(1, weights.ndim)))
        sample_weight = weights
    if values.ndim > 1:
        values = reduce(values, axis=list(range(1, values.ndim)))
    return values, sample_weight


class Mean(Metric):
    """The mean of all values.

    >>> metric = tf.keras.metrics.Mean()
    >>> metric.update_state([1.0, 3.0])
    >>> metric.result().numpy().item()
    2.0
    """

    def __init__(self, name: str | None = "mean", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.total = self.add_variable((), "zeros", name="total")
        self.count = self.add_variable((), "zeros", name="count")

    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        values, weights = of_examples(values, sample_weight, reduce_mean, self._dtype)
        self.total.assign_add(reduce_sum(values))
        if weights is not None:
            self.count.assign_add(reduce_sum(weights))
        else:
            self.count.assign_add(float(values.shape[0]) if values.ndim else 1.0)

    def result(self) -> Tensor:
        """The mean so far, 0 of nothing."""
        return divide_no_nan(self.total, self.count)


class Sum(Metric):
    """The sum of all values.

    >>> tf.keras.metrics.Sum()([1.0, 3.0]).numpy().item()
    4.0
    """

    def __init__(self, name: str | None = "sum", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.total = self.add_variable((), "zeros", name="total")

    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        values, _ = of_examples(values, sample_weight, reduce_sum, self._dtype)
        self.total.assign_add(reduce_sum(values))

    def result(self) -> Tensor:
        return convert(self.total)


class MeanMetricWrapper(Mean):
    """The mean of a function of targets and predictions.

    >>> metric = tf.keras.metrics.MeanMetricWrapper(tf.keras.losses.mean_squared_error, name="s")
    >>> metric([[0.0]], [[2.0]]).numpy().item()
    4.0
    """

    def __init__(self, fn: Any, name: str | None = None, dtype: Any = None, **kwargs: Any) -> None:
        super().__init__(name=name, dtype=dtype)
        self._fn, self._fn_kwargs = fn, kwargs

    def update_state(  # type: ignore[override]
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> None:
        """Count a batch of targets and predictions in; what a mask leaves out does not count."""
        mask = getattr(y_pred, "_keras_mask", None)
        if mask is not None:
            shares = cast(mask, self._dtype)
            given = 1.0 if sample_weight is None else cast(convert(sample_weight), self._dtype)
            sample_weight = shares * given
        super().update_state(self._fn(y_true, y_pred, **self._fn_kwargs), sample_weight)
