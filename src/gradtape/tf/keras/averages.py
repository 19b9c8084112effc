"""Around the steps of an optimizer: running averages of variables, and gradients of several steps.

Both are parts of the step's program: what happens only in some steps is chosen by `where`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.ops.elementwise.arithmetic import where
from gradtape.tensor.variable import Variable
from gradtape.tf.base.conversion import convert


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
