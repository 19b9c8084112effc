"""Recurrent layers: a cell taken over all steps in time."""

from __future__ import annotations

from typing import Any

from gradtape.errors import ShapeError
from gradtape.loops import scan
from gradtape.nn.cells import Cell, GRUCell, LSTMCell, RNNCell, State
from gradtape.nn.layer import Layer, words
from gradtape.ops.movement import flip, moveaxis

__all__ = ["GRU", "LSTM", "RNN"]


def _over_time(cell: Cell, inputs: Any, state: State) -> tuple[Any, Any, State]:
    """All outputs (batch, time, units), the last one, and the last state."""
    is_state: list[bool] = []

    def step(state: State, projected: Any) -> tuple[State, Any]:
        output, new = cell.step(projected, state)
        is_state.append(output is new[0])
        return new, output

    state, outputs = scan(step, state, cell.project(moveaxis(inputs, 1, 0)))
    # Where outputs are the first part of the state, all of them are kept only if they are read.
    last = state[0] if is_state[-1] else outputs[-1]
    return moveaxis(outputs, 0, 1), last, state


class RNN(Layer):
    """A cell taken over the steps of inputs of shape (batch, time, features).

    The cell is given, or a number of units for an `RNNCell`. The result is the last output, or all
    of them with `return_sequences`; with `return_state` it is a tuple of that and the last state.

    >>> layer = gt.nn.RNN(4, return_sequences=True)
    >>> layer(np.ones((2, 5, 3))).shape
    (2, 5, 4)
    >>> layer = gt.nn.RNN(gt.nn.LSTMCell(4), return_state=True)
    >>> output, h, c = layer(np.ones((2, 5, 3)))
    >>> output.shape, c.shape
    ((2, 4), (2, 4))
    """

    def __init__(
        self,
        cell: Any,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        *,
        dtype: Any = None,
        name: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(name, dtype)
        if isinstance(cell, Cell):
            if options or dtype is not None:
                raise TypeError(
                    f"RNN: {', '.join([*options, *(['dtype'] if dtype is not None else [])])} "
                    "belongs to the cell. Pass it to the cell that you made."
                )
            self.cell: Cell = cell
        else:
            self.cell = self.make_cell(cell, dtype=dtype, **options)
        self.return_sequences = bool(return_sequences)
        self.return_state = bool(return_state)
        self.go_backwards = bool(go_backwards)

    def make_cell(self, units: int, **options: Any) -> Cell:
        """The cell for a number of units."""
        return RNNCell(units, name=f"{self.name}.cell", **options)

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Make the variables of the cell."""
        self.cell.ensure_built(input_shape, self.dtype)
        self.dtype = self.cell.dtype

    def call(self, x: Any, initial_state: Any = None) -> Any:
        """The last output or all, and the last state if it was asked for."""
        if x.ndim != 3 or not x.shape[1]:
            raise ShapeError(
                f"{self.name}: an input of shape {x.shape} is not (batch, time, features) with at "
                "least one step in time. Reshape it."
            )
        state = self.cell.as_state(initial_state, x.shape[0])
        x = flip(x, axis=1) if self.go_backwards else x
        sequence, last, state = _over_time(self.cell, x, state)
        output = sequence if self.return_sequences else last
        return (output, *state) if self.return_state else output

    def describe(self) -> str:
        """The arguments that `repr` shows."""
        return words(return_sequences=self.return_sequences, return_state=self.return_state)


class LSTM(RNN):
    """An `LSTMCell` taken over the steps of inputs of shape (batch, time, features).

    Options besides those of `RNN` are the cell's: activation, recurrent_activation, use_bias,
    kernel_initializer, recurrent_initializer, bias_initializer, unit_forget_bias.

    >>> layer = gt.nn.LSTM(4, return_state=True)
    >>> output, h, c = layer(np.ones((2, 5, 3)))
    >>> output.tolist() == h.tolist()
    True
    """

    def make_cell(self, units: int, **options: Any) -> Cell:
        """The cell for a number of units."""
        return LSTMCell(units, name=f"{self.name}.cell", **options)


class GRU(RNN):
    """A `GRUCell` taken over the steps of inputs of shape (batch, time, features).

    Options besides those of `RNN` are the cell's: activation, recurrent_activation, use_bias,
    kernel_initializer, recurrent_initializer, bias_initializer, reset_after.

    >>> gt.nn.GRU(4)(np.ones((2, 5, 3))).shape
    (2, 4)
    """

    def make_cell(self, units: int, **options: Any) -> Cell:
        """The cell for a number of units."""
        return GRUCell(units, name=f"{self.name}.cell", **options)
