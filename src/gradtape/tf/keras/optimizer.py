"""Optimizer: what Keras' optimizers add to gradtape's.

Running averages and gradients of several steps are parts of the step's program: what happens only
in some steps is chosen by `where`.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterable
from typing import Any

import numpy as np

from gradtape import RowSparse, optimizers as core, where
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.scopes import without_prefix
from gradtape.tf.base.slices import IndexedSlices
from gradtape.tf.keras import initializers, schedules
from gradtape.tf.keras.weights import snake_case
from gradtape.tf.programs.tape import GradientTape
from gradtape.tf.programs.trackable import variables_were_made
from gradtape.tf.programs.variable import Variable
from gradtape.typing import Positive


class Average:
    """Running averages of variables, which may take their place every so many steps."""

    def __init__(self, momentum: float, frequency: int | None, make: Any) -> None:
        if not 0.0 <= momentum <= 1.0:
            raise ValueError(f"`ema_momentum` must be in the range [0, 1]. Got: {momentum}.")
        if frequency is not None and (not isinstance(frequency, int) or frequency < 1):
            raise ValueError(
                f"`ema_overwrite_frequency` must be an integer >= 1 or None. Got: {frequency}."
            )
        self._momentum, self._frequency, self._make = float(momentum), frequency, make
        self._averages: dict[int, Any] = {}

    @property
    def variables(self) -> list[Any]:
        """The averages."""
        return list(self._averages.values())

    def build(self, variables: list[Any]) -> None:
        """Make the averages of variables that have none yet."""
        for variable in variables:
            if variable.number not in self._averages:
                start = np.zeros(tuple(variable.shape), variable.dtype)
                self._averages[variable.number] = self._make(start, f"{variable.name}.average")

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


class Accumulation:
    """Gradients summed over some steps; the last of them applies their mean."""

    def __init__(self, steps: int, make: Any) -> None:
        if not isinstance(steps, int) or steps < 2:
            raise ValueError(
                f"`gradient_accumulation_steps` must be an integer >= 2. Received: {steps}."
            )
        self._steps, self._make = steps, make
        self._sums: dict[int, Any] = {}
        self._seen: Any = make(np.int64(0), "accumulated_steps")

    @property
    def variables(self) -> list[Any]:
        """The sums, and how many steps there were."""
        return [self._seen, *self._sums.values()]

    def take(self, gradients: list[Any], variables: list[Any], step: Any, state: Any) -> None:
        """Call `step` with mean gradients; between its turns all that it changes stays."""
        for variable in variables:
            if variable.number not in self._sums:
                start = np.zeros(tuple(variable.shape), variable.dtype)
                self._sums[variable.number] = self._make(start, f"{variable.name}.accumulator")
        sums = [
            None if g is None else self._sums[v.number].value + convert(g)
            for g, v in zip(gradients, variables, strict=True)
        ]
        due = (self._seen.value + 1) % self._steps == 0
        cells: list[Variable] = [*variables, *state()]
        before = [cell.value for cell in cells]
        step([None if s is None else s / float(self._steps) for s in sums], variables)
        for cell, old in zip(cells, before, strict=True):
            cell.assign(where(due, cell.value, old))
        for summed, variable in zip(sums, variables, strict=True):
            if summed is not None:
                self._sums[variable.number].assign(where(due, summed * 0.0, summed))
        self._seen.assign(self._seen.value + 1)


def prepared(gradient: Any, variable: Any) -> Any:
    """A gradient as gradtape's optimizers want it: rows stay rows."""
    if isinstance(gradient, IndexedSlices):
        known = gradient if gradient.dense_shape is not None else gradient.of(variable)
        return RowSparse(known.indices, known.values, known.spec)
    return gradient


def _as_rate(given: Any) -> Any:
    """A learning rate; a function without arguments is asked at every step."""
    if isinstance(given, str) or given is None:
        raise ValueError(
            "Argument `learning_rate` should be float, or an instance of LearningRateSchedule, or "
            f"a callable. Received instead: learning_rate={given}"
        )
    if isinstance(given, dict):
        return schedules.deserialize(given)
    if callable(given) and not isinstance(given, (type, schedules.LearningRateSchedule)):
        with contextlib.suppress(TypeError, ValueError):
            if not inspect.signature(given).parameters:
                return lambda step: given()
    return given


class Optimizer(core.Optimizer):
    """What all optimizers share; derive your own with `build` and `update_step`.

    >>> optimizer = tf.keras.optimizers.SGD(learning_rate=0.1)
    >>> w = tf.Variable(1.0)
    >>> with tf.GradientTape() as tape:
    ...     loss = w * w
    >>> _ = optimizer.apply_gradients(zip(tape.gradient(loss, [w]), [w]))
    >>> round(w.numpy().item(), 6), optimizer.iterations.numpy().item(), optimizer.name
    (0.8, 1, 'sgd')
    """

    def __init__(
        self,
        *args: Any,
        use_ema: bool = False,
        ema_momentum: float = 0.99,
        ema_overwrite_frequency: int | None = None,
        loss_scale_factor: Positive | None = None,
        gradient_accumulation_steps: int | None = None,
        **kwargs: Any,
    ) -> None:
        known = inspect.signature(super().__init__).parameters
        unknown = {key: value for key, value in kwargs.items() if key not in known}
        if unknown:
            raise ValueError(f"Argument(s) not recognized: {unknown}")
        if args:
            args = (_as_rate(args[0]), *args[1:])
        elif "learning_rate" in kwargs:
            kwargs["learning_rate"] = _as_rate(kwargs["learning_rate"])
        self._variables: list[Any] = []
        super().__init__(*args, **kwargs)
        if kwargs.get("name") is None:
            self.name = snake_case(type(self).__name__)
        self.use_ema, self.ema_momentum = bool(use_ema), ema_momentum
        self.ema_overwrite_frequency = ema_overwrite_frequency
        self.loss_scale_factor = loss_scale_factor
        self.gradient_accumulation_steps = gradient_accumulation_steps
        make = self.make_variable
        average = Average(ema_momentum, ema_overwrite_frequency, make)  # checks both
        self._average = average if use_ema else None
        steps = gradient_accumulation_steps
        self._accumulation = None if steps is None else Accumulation(steps, make)
        self.built = False

    def make_variable(self, start: Any, name: str) -> Any:
        """State as variables of this face; the learning rate is float32, as in Keras."""
        start = np.float32(start) if name == "learning_rate" else start
        with without_prefix():
            made = Variable(start, trainable=False)
        made.name = name.replace(":0", "").replace(".", "_").replace("iterations", "iteration")
        return made

    # Attributes that Keras has.

    @property
    def clipnorm(self) -> float | None:
        """The bound of the length of each gradient."""
        return self._clipping.clipnorm

    @property
    def clipvalue(self) -> float | None:
        """The bound of the size of each element."""
        return self._clipping.clipvalue

    @property
    def global_clipnorm(self) -> float | None:
        """The bound of the length of all gradients together."""
        return self._clipping.global_clipnorm

    @property
    def learning_rate(self) -> Any:
        """The learning rate: a Variable, or what the schedule gives now. It may be set."""
        return core.Optimizer.learning_rate.fget(self)  # type: ignore[attr-defined]

    @learning_rate.setter
    def learning_rate(self, given: Any) -> None:
        if isinstance(self._rate, schedules.LearningRateSchedule):
            raise TypeError(
                "This optimizer was created with a `LearningRateSchedule` object as its "
                "`learning_rate`, so it cannot be set. Make the optimizer with a number instead."
            )
        core.Optimizer.learning_rate.fset(self, _as_rate(given))  # type: ignore[attr-defined]

    @property
    def lr(self) -> Any:
        """The learning rate, under its old name."""
        return self.learning_rate

    @lr.setter
    def lr(self, given: Any) -> None:
        self.learning_rate = given

    @property
    def variables(self) -> list[Any]:
        """All state: the step count, the learning rate, the slots, and what else there is."""
        found = [variable for _, variable in self.named_variables()] + self._variables
        for more in (self._average, self._accumulation):
            found += [] if more is None else more.variables
        return found

    def get_config(self) -> dict[str, Any]:
        """The arguments that make an equal optimizer, without its state.

        >>> tf.keras.optimizers.SGD(0.5, momentum=0.9).get_config()["momentum"]
        0.9
        """
        found = super().get_config()
        if not found.get("lazy"):
            found.pop("lazy", None)
        shared = (
            "name",
            "learning_rate",
            "weight_decay",
            "clipnorm",
            "global_clipnorm",
            "clipvalue",
        )
        first = {key: found.pop(key) for key in shared}
        more = {key: getattr(self, key) for key in _SHARED}
        return {**first, **more, **found}

    def get_weights(self) -> list[Any]:
        """The values of all state, as NumPy arrays."""
        return [np.array(variable.numpy()) for variable in self.variables]

    def set_weights(self, weights: Iterable[Any]) -> None:
        """Assign all state, in the order of `variables`."""
        values = list(weights)
        if len(values) != len(self.variables):
            raise ValueError(
                f"{self.name}: {len(values)} values for {len(self.variables)} variables. Call "
                "build(variables) first, and give one value for each."
            )
        for variable, value in zip(self.variables, values, strict=True):
            variable.assign(value)

    # Steps.

    def build(self, variables: Iterable[Any]) -> None:
        """Make the state that belongs to variables."""
        variables = list(variables)
        super().build(variables)
        if not self.built:
            self._trainable_variables = variables
            self.built = True
        if self._average is not None:
            self._average.build(variables)
        variables_were_made()

    _trainable_variables: Any = ()

    def _advance(self, gradients: list[Any], variables: list[Any]) -> None:
        scale = self.loss_scale_factor
        if scale is not None:
            gradients = [g if g is None else _scaled(g, 1.0 / scale) for g in gradients]
        if self._accumulation is None:
            self._step(gradients, variables)
        else:
            self._accumulation.take(gradients, variables, self._step, self._changing)
        self._constrain(variables)

    def _changing(self) -> list[Any]:
        """What a step changes besides the variables."""
        found = [v for name, v in self.named_variables() if name != "learning_rate"]
        return found + self._variables + ([] if self._average is None else self._average.variables)

    def _changed(self) -> list[Any]:
        more = [] if self._accumulation is None else self._accumulation.variables
        return self._changing() + more

    def _step(self, gradients: list[Any], variables: list[Any]) -> None:
        super()._advance(gradients, variables)
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
        return self.iterations

    def apply(self, grads: Iterable[Any], trainable_variables: Any = None) -> None:
        """Take one step, given two lists; without variables, for those it was built for."""
        grads = list(grads)
        if not grads:
            return
        if trainable_variables is None and not self.built:
            raise ValueError(
                "When passing `grads` without `variables`, the optimizer must already be built on "
                "a list of variables. Call `optimizer.build(trainable_variables)` first."
            )
        given = trainable_variables
        variables = list(self._trainable_variables if given is None else given)
        super().apply([prepared(g, v) for g, v in zip(grads, variables, strict=True)], variables)

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

    def scale_loss(self, loss: Any) -> Any:
        """The loss times `loss_scale_factor`, by which gradients are divided again."""
        return loss if self.loss_scale_factor is None else loss * self.loss_scale_factor

    def _constrain(self, variables: list[Any]) -> None:
        for variable in variables:
            constraint = getattr(variable, "constraint", None)
            if constraint is not None:
                variable.assign(constraint(variable.value))

    # What an optimizer of one's own, with `update_step`, uses.

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Assign the new value of a variable, and of what was added for it."""
        raise NotImplementedError(
            f"{type(self).__name__}: an optimizer needs `update_step(self, gradient, variable, "
            "learning_rate)`. Define it."
        )

    def _change(self, variable: Any, gradient: Any, weight: Any, rates: Any) -> None:
        if type(self).update_step is Optimizer.update_step:
            super()._change(variable, gradient, weight, rates)
            return
        if weight is not variable.value:
            variable.assign(weight)
        dense = gradient.dense() if isinstance(gradient, RowSparse) else gradient
        self.update_step(dense, variable, rates[0])

    def add_variable_from_reference(
        self, reference_variable: Any, name: str | None = None, initializer: Any = "zeros"
    ) -> Any:
        """One more part of the state, of the shape of a variable."""
        start = initializers.get(initializer)(reference_variable.shape, reference_variable.dtype)
        return self.add_variable((), start, name=f"{reference_variable.name}.{name or 'state'}")

    def add_variable(
        self, shape: Any, initializer: Any = "zeros", dtype: Any = None, name: str | None = None
    ) -> Any:
        """One more part of the state."""
        start = initializer
        if isinstance(initializer, str) or callable(initializer):
            start = initializers.get(initializer)(shape, dtype)
        made = self.make_variable(start.numpy(), name or "variable")
        self._variables.append(made)
        return made

    def assign(self, variable: Any, value: Any) -> None:
        """Assign a value."""
        variable.assign(value)

    def assign_add(self, variable: Any, value: Any) -> None:
        """Add to the value."""
        variable.assign_add(value)

    def assign_sub(self, variable: Any, value: Any) -> None:
        """Subtract from the value."""
        variable.assign_sub(value)

    def _get_variable_index(self, variable: Any) -> int:
        numbers = [each.number for each in self._trainable_variables]
        return numbers.index(variable.number)


_SHARED = (
    "use_ema",
    "ema_momentum",
    "ema_overwrite_frequency",
    "loss_scale_factor",
    "gradient_accumulation_steps",
)


def _scaled(gradient: Any, factor: float) -> Any:
    if isinstance(gradient, RowSparse):
        return RowSparse(gradient.indices, gradient.values * factor, gradient.spec)
    return gradient * factor
