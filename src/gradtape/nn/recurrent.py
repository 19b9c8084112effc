"""Recurrent layers: a cell taken over all steps in time, in one direction or in both."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gradtape as gt
from gradtape import Tensor
from gradtape.errors import ShapeError
from gradtape.libraries import check_exports
from gradtape.nn.cells import Cell, CellState, GRUCell, LSTMCell, RNNCell, StateLike
from gradtape.nn.module import Layer
from gradtape.typing import DTypeLike, TensorLike

__all__ = ["Bidirectional", "GRU", "LSTM", "RNN"]


def over_time(
    cell: Cell, inputs: Tensor, state: CellState, mask: Tensor | None = None
) -> tuple[Tensor, Tensor, CellState]:
    """All outputs, the last one, and the last state, for inputs that have time as first axis.

    Where the mask (time, batch) is False, a step leaves the state as it is and gives the output of
    the step before, which is 0 at the beginning.
    """
    projected = cell.project(inputs)
    if mask is not None:
        return _over_masked_time(cell, projected, state, mask)
    is_state: list[bool] = []

    def step(state: CellState, projected: Tensor) -> tuple[CellState, Tensor]:
        output, new = cell.step(projected, state)
        is_state.append(output is new[0])
        return new, output

    state, outputs = gt.scan(step, state, projected)
    # Where outputs are the first part of the state, all of them are kept only if they are read.
    return outputs, state[0] if is_state[-1] else outputs[-1], state


def _over_masked_time(
    cell: Cell, projected: Tensor, state: CellState, mask: Tensor
) -> tuple[Tensor, Tensor, CellState]:
    batch, dtype = projected.shape[1], state[0].dtype

    def step(
        known: tuple[Tensor, CellState], now: tuple[Tensor, Tensor]
    ) -> tuple[tuple[Tensor, CellState], Tensor]:
        (before, state), (projected, counts) = known, now
        counts = gt.reshape(counts, (batch, 1))
        output, new = cell.step(projected, state)
        output = gt.where(counts, output, before)
        kept = tuple(gt.where(counts, n, old) for n, old in zip(new, state, strict=True))
        return (output, kept), output

    start = gt.zeros((batch, cell.units), dtype=dtype)
    (last, state), outputs = gt.scan(step, (start, tuple(state)), (projected, mask))
    return outputs, last, state


class RNN(Layer):
    """A cell taken over the steps of inputs of shape (batch, time, features).

    `cell` is a cell, or a number of units for an `RNNCell`. The result is the last output, or all
    of them with `return_sequences`; with `return_state` it is a tuple of that and the last state.
    With `time_major` inputs and outputs are (time, batch, features). A `mask` of booleans (batch,
    time) says which steps count: at the others the state stays, and the last output is repeated.

    >>> layer = gt.nn.RNN(4, return_sequences=True)
    >>> layer(np.ones((2, 5, 3))).shape
    (2, 5, 4)
    >>> layer = gt.nn.RNN(gt.nn.LSTMCell(4), return_state=True)
    >>> output, h, c = layer(np.ones((2, 5, 3)))
    >>> output.shape, c.shape
    ((2, 4), (2, 4))
    """

    cell_class: type[Cell] = RNNCell
    shown = ("return_sequences", "return_state")

    def __init__(
        self,
        cell: Cell | int,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        *,
        time_major: bool = False,
        dtype: DTypeLike | None = None,
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
        self.time_major = bool(time_major)

    def make_cell(self, units: int, **options: Any) -> Cell:
        """The cell for a number of units."""
        return self.cell_class(units, name=f"{self.name}.cell", **options)

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Make the variables of the cell."""
        self.cell.ensure_built(input_shape, self.dtype)
        self.dtype = self.cell.dtype

    def call(
        self, x: Tensor, initial_state: StateLike = None, mask: TensorLike | None = None
    ) -> Any:
        """The last output or all, and with `return_state` the last state: a tensor or a tuple."""
        time = 0 if self.time_major else 1
        if x.ndim != 3 or not x.shape[time]:
            axes = "(time, batch, features)" if self.time_major else "(batch, time, features)"
            raise ShapeError(
                f"{self.name}: an input of shape {x.shape} is not {axes} with at least one step in "
                "time. Reshape it."
            )
        x = x if self.time_major else gt.moveaxis(x, 1, 0)
        state = self.cell.as_state(initial_state, x.shape[1])
        if mask is not None:
            mask = self._checked(gt.asarray(mask), x.shape)
        if self.go_backwards:
            x, mask = gt.flip(x, axis=0), None if mask is None else gt.flip(mask, axis=0)
        sequence, last, state = over_time(self.cell, x, state, mask)
        if self.return_sequences:
            last = sequence if self.time_major else gt.moveaxis(sequence, 0, 1)
        return (last, *state) if self.return_state else last

    def _checked(self, mask: Tensor, shape: tuple[int, ...]) -> Tensor:
        """A mask as booleans of shape (time, batch)."""
        steps, batch = shape[:2]
        expected = (steps, batch) if self.time_major else (batch, steps)
        if mask.shape != expected:
            raise ShapeError(
                f"{self.name}: a mask of shape {mask.shape} does not fit. It needs {expected}, a "
                "boolean for each example and step."
            )
        mask = mask if mask.dtype.kind == "b" else gt.cast(mask, gt.bool)
        return mask if self.time_major else gt.moveaxis(mask, 0, 1)


class LSTM(RNN):
    """An `LSTMCell` taken over the steps of inputs of shape (batch, time, features).

    Options besides those of `RNN` are the cell's: activation, recurrent_activation, use_bias,
    kernel_initializer, recurrent_initializer, bias_initializer, unit_forget_bias.

    >>> layer = gt.nn.LSTM(4, return_state=True)
    >>> output, h, c = layer(np.ones((2, 5, 3)))
    >>> output.tolist() == h.tolist()
    True
    """

    cell_class = LSTMCell


class GRU(RNN):
    """A `GRUCell` taken over the steps of inputs of shape (batch, time, features).

    Options besides those of `RNN` are the cell's: activation, recurrent_activation, use_bias,
    kernel_initializer, recurrent_initializer, bias_initializer, reset_after.

    >>> gt.nn.GRU(4)(np.ones((2, 5, 3))).shape
    (2, 4)
    """

    cell_class = GRUCell


# The outputs of both directions as one, or both.
MERGED: dict[str | None, Callable[[Tensor, Tensor], Any]] = {
    "concat": lambda one, two: gt.concat([one, two], axis=-1),
    "sum": lambda one, two: one + two,
    "mul": lambda one, two: one * two,
    "ave": lambda one, two: (one + two) / 2.0,
    None: lambda one, two: (one, two),
}


def check_mode(mode: object) -> None:
    """Raise an error unless outputs can be merged so."""
    if mode not in MERGED:
        raise ValueError(f"Bidirectional: merge_mode={mode!r} is unknown. Use one of {(*MERGED,)}.")


class Bidirectional(Layer):
    """A recurrent layer forwards, another one backwards, and their outputs side by side.

    The layer backwards is a copy with variables of its own, unless `backward_layer` is passed.
    Other values of `merge_mode` are "sum", "mul", "ave", and None for both outputs.

    >>> layer = gt.nn.Bidirectional(gt.nn.LSTM(4, return_sequences=True))
    >>> layer(np.ones((2, 5, 3))).shape
    (2, 5, 8)
    """

    shown = ("merge_mode",)

    def __init__(
        self,
        layer: RNN,
        merge_mode: str | None = "concat",
        backward_layer: RNN | None = None,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        if not isinstance(layer, RNN):
            raise TypeError(
                f"Bidirectional: {type(layer).__name__} is not a recurrent layer. Pass an RNN, "
                "LSTM or GRU."
            )
        check_mode(merge_mode)
        self.forward_layer = layer
        self.backward_layer = _reversed(layer) if backward_layer is None else backward_layer
        self.merge_mode = merge_mode
        if self.backward_layer.go_backwards == layer.go_backwards:
            raise ValueError(
                "Bidirectional: both layers go the same way. Give one of them go_backwards=True."
            )

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Make the variables of both layers."""
        for layer in (self.forward_layer, self.backward_layer):
            layer.ensure_built(input_shape, self.dtype)

    def call(self, x: Tensor, initial_state: Any = None, mask: TensorLike | None = None) -> Any:
        """The merged outputs, and with `return_state` the last states of both."""
        first, second = self.forward_layer, self.backward_layer
        starts: tuple[Any, Any] = (None, None)
        if initial_state is not None:
            half = len(initial_state) // 2
            starts = (list(initial_state[:half]), list(initial_state[half:]))
        one = first(x, initial_state=starts[0], mask=mask)
        two = second(x, initial_state=starts[1], mask=mask)
        states: tuple[Any, ...] = ()
        if first.return_state:
            (one, *ones), (two, *twos) = one, two
            states = (*ones, *twos)
        if first.return_sequences:
            two = gt.flip(two, axis=0 if first.time_major else 1)
        found = MERGED[self.merge_mode](one, two)
        if not states:
            return found
        return (*(found if self.merge_mode is None else (found,)), *states)


def _reversed(layer: RNN) -> RNN:
    """A layer like another that goes the other way, with variables of its own."""
    made = copy.deepcopy(layer)
    made.go_backwards = not layer.go_backwards
    if made.built:
        cell: Any = made.cell
        cell.build((cell.kernel.shape[0],))
    return made


check_exports(globals(), __all__)
