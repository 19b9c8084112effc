"""Keras' optimizers, on variables and gradients of this face."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterable
from typing import Any

import numpy as np

from gradtape import optimizers as core
from gradtape.ops.arithmetic import where
from gradtape.tensor import RowSparse
from gradtape.tf.keras import rarer_optimizers, schedules
from gradtape.tf.slices import IndexedSlices
from gradtape.tf.suggestions import attribute_finder
from gradtape.tf.tape import GradientTape
from gradtape.variable import Variable

__all__ = [
    "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Lion", "Nadam", "Optimizer",
    "RMSprop", "SGD", "deserialize", "get", "schedules", "serialize",
]  # fmt: skip


def prepared(gradient: Any, variable: Any) -> Any:
    """A gradient as gradtape's optimizers want it: rows stay rows."""
    if isinstance(gradient, IndexedSlices):
        known = gradient if gradient.dense_shape is not None else gradient.of(variable)
        return RowSparse(known.indices, known.values, known.spec)
    return gradient


def _as_rate(given: Any) -> Any:
    """A learning rate; a function without arguments is asked at every step."""
    if callable(given) and not isinstance(given, (type, schedules.LearningRateSchedule)):
        with contextlib.suppress(TypeError, ValueError):
            if not inspect.signature(given).parameters:
                return lambda step: given()
    return given


class Average:
    """Running averages of variables, which may take their place every so many steps."""

    def __init__(self, momentum: float, frequency: int | None) -> None:
        if not 0.0 <= momentum <= 1.0:
            raise ValueError(f"`ema_momentum` must be in the range [0, 1]. Got: {momentum}.")
        self._momentum, self._frequency = float(momentum), frequency
        self._averages: dict[int, Any] = {}

    def build(self, variables: list[Any]) -> None:
        """Make the averages of variables that have none yet."""
        for variable in variables:
            if variable.number not in self._averages:
                start = np.zeros(tuple(variable.shape), variable.dtype)
                self._averages[variable.number] = Variable(start, trainable=False)

    def follow(self, variables: list[Any], iterations: Any) -> None:
        """One step more: `iterations` counts it already. Averages begin with the first values."""
        for variable in variables:
            known = self._averages[variable.number]
            blend = self._momentum * known.value + (1.0 - self._momentum) * variable.value
            known.assign(where(iterations.value == 1, variable.value, blend))
        if self._frequency is not None:
            due = iterations.value % int(self._frequency) == 0
            for variable in variables:
                average = self._averages[variable.number]
                variable.assign(where(due, average.value, variable.value))

    def overwrite(self, variables: list[Any]) -> None:
        """Give variables their averages."""
        for variable in variables:
            if variable.number in self._averages:
                variable.assign(self._averages[variable.number].value)


class Optimizer(core.Optimizer):
    """What all optimizers share.

    >>> optimizer = tf.keras.optimizers.SGD(learning_rate=0.1)
    >>> w = tf.Variable(1.0)
    >>> with tf.GradientTape() as tape:
    ...     loss = w * w
    >>> _ = optimizer.apply_gradients(zip(tape.gradient(loss, [w]), [w]))
    >>> round(w.numpy().item(), 6)
    0.8
    """

    def __init__(
        self,
        *args: Any,
        use_ema: bool = False,
        ema_momentum: float = 0.99,
        ema_overwrite_frequency: int | None = None,
        loss_scale_factor: Any = None,
        gradient_accumulation_steps: Any = None,
        **kwargs: Any,
    ) -> None:
        if loss_scale_factor is not None or gradient_accumulation_steps is not None:
            raise ValueError(
                f"{type(self).__name__}: loss_scale_factor and gradient_accumulation_steps are "
                "not covered. Scale the loss, or add gradients up, before apply_gradients."
            )
        if args:
            args = (_as_rate(args[0]), *args[1:])
        elif "learning_rate" in kwargs:
            kwargs["learning_rate"] = _as_rate(kwargs["learning_rate"])
        super().__init__(*args, **kwargs)
        self._average = Average(ema_momentum, ema_overwrite_frequency) if use_ema else None

    @property
    def learning_rate(self) -> Any:
        """The learning rate: a Variable, or what the schedule gives now. It may be set."""
        return core.Optimizer.learning_rate.fget(self)  # type: ignore[attr-defined]

    @learning_rate.setter
    def learning_rate(self, given: Any) -> None:
        core.Optimizer.learning_rate.fset(self, _as_rate(given))  # type: ignore[attr-defined]

    def _take_step(self, gradients: list[Any], variables: list[Any]) -> None:
        if self._average is not None:
            self._average.build(variables)
        super()._take_step(gradients, variables)
        if self._average is not None:
            self._average.follow(variables, self._iterations)

    def finalize_variable_values(self, var_list: Iterable[Any]) -> None:
        """Give variables their averages, if `use_ema` asks for them."""
        if self._average is not None:
            self._average.overwrite(list(var_list))

    def apply_gradients(self, grads_and_vars: Iterable[Any], name: Any = None) -> Any:
        """Take one step, given pairs of a gradient and its variable."""
        pairs = [(prepared(gradient, variable), variable) for gradient, variable in grads_and_vars]
        super().apply_gradients(pairs)
        self._constrain([variable for _, variable in pairs])
        return self.iterations

    def apply(self, grads: Iterable[Any], trainable_variables: Any = None) -> None:
        """Take one step, given two lists."""
        variables = self._built if trainable_variables is None else list(trainable_variables)
        super().apply([prepared(g, v) for g, v in zip(grads, variables, strict=True)], variables)
        self._constrain(variables)

    _built: Any = ()

    def build(self, variables: Iterable[Any]) -> None:
        """Make the state that belongs to variables."""
        self._built = list(variables)
        super().build(self._built)

    def minimize(self, loss: Any, var_list: Any, tape: Any = None) -> Any:
        """Take one step down the gradient of a loss, a function or a tensor that a tape saw."""
        value = loss
        if callable(loss):
            tape = GradientTape() if tape is None else tape
            with tape:
                value = loss()
        elif tape is None:
            raise ValueError("`tape` is required when a tensor is passed as loss.")
        variables = list(var_list() if callable(var_list) else var_list)
        self.apply_gradients(zip(tape.gradient(value, variables), variables, strict=True))
        return value

    @property
    def lr(self) -> Any:
        """The learning rate, under its old name."""
        return self.learning_rate

    @lr.setter
    def lr(self, given: Any) -> None:
        self.learning_rate = given

    def _constrain(self, variables: list[Any]) -> None:
        for variable in variables:
            constraint = getattr(variable, "constraint", None)
            if constraint is not None:
                variable.assign(constraint(variable.value))


def _derived(kind: Any) -> Any:
    """One of gradtape's optimizers with the methods above."""
    name = kind.__name__
    example = f">>> tf.keras.optimizers.{name}(learning_rate=0.1).name\n    {name!r}\n"
    formula = (kind.__doc__ or "").partition(">>>")[0].rstrip()
    return type(name, (Optimizer, kind), {
        "__doc__": f"{formula}\n\n    {example}    ", "__module__": __name__,
        "__signature__": _signature(kind),
    })  # fmt: skip


def _signature(kind: Any) -> inspect.Signature:
    """The arguments of an optimizer and, before its name, those that all share."""
    own = list(inspect.signature(kind).parameters.values())
    more = [
        parameter for parameter in inspect.signature(Optimizer.__init__).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    ]  # fmt: skip
    named = [parameter for parameter in own if parameter.name == "name"]
    rest = [parameter for parameter in own if parameter.kind is parameter.KEYWORD_ONLY]
    first = [parameter for parameter in own if parameter not in named and parameter not in rest]
    return inspect.Signature(
        [*first, *more, *(p.replace(kind=p.KEYWORD_ONLY) for p in named), *rest]
    )


_KINDS = (
    core.SGD, core.Adam, core.AdamW, core.RMSprop, core.Adagrad, rarer_optimizers.Adadelta,
    rarer_optimizers.Adamax, rarer_optimizers.Ftrl, rarer_optimizers.Lion, rarer_optimizers.Nadam,
)  # fmt: skip
SGD, Adam, AdamW, RMSprop, Adagrad, Adadelta, Adamax, Ftrl, Lion, Nadam = map(_derived, _KINDS)
_BY_NAME = {
    kind.__name__.lower(): kind
    for kind in (SGD, Adam, AdamW, RMSprop, Adagrad, Adadelta, Adamax, Ftrl, Lion, Nadam)
}


def get(identifier: Any) -> Any:
    """An optimizer by name, from its configuration, or as it is.

    >>> tf.keras.optimizers.get("adam").name
    'Adam'
    """
    if isinstance(identifier, core.Optimizer):
        return identifier
    if isinstance(identifier, dict):
        return deserialize(identifier)
    found = _BY_NAME.get(str(identifier).lower())
    if found is None:
        raise ValueError(f"optimizer {identifier!r} is unknown. There are {', '.join(_BY_NAME)}.")
    return found()


def serialize(optimizer: Any) -> dict[str, Any]:
    """The class and the configuration of an optimizer.

    >>> tf.keras.optimizers.serialize(tf.keras.optimizers.SGD(0.5))["class_name"]
    'SGD'
    """
    return {"class_name": type(optimizer).__name__, "config": optimizer.get_config()}


def deserialize(config: dict[str, Any]) -> Any:
    """The optimizer that `serialize` described.

    >>> tf.keras.optimizers.deserialize({"class_name": "SGD", "config": {}}).name
    'SGD'
    """
    return _BY_NAME[config["class_name"].lower()].from_config(config["config"])


__getattr__ = attribute_finder(__name__, globals())
