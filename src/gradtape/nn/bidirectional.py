"""Bidirectional: a recurrent layer forwards, and another one backwards in time."""

from __future__ import annotations

import copy
from typing import Any

from gradtape.nn.layer import Layer, words
from gradtape.nn.recurrent import RNN
from gradtape.ops.arrays.joining import concat
from gradtape.ops.arrays.movement import flip
from gradtape.tensor import Tensor, TensorLike

__all__ = ["Bidirectional"]

MODES = ("concat", "sum", "mul", "ave", None)


class Bidirectional(Layer):
    """A recurrent layer forwards, another one backwards, and their outputs side by side.

    The layer backwards is a copy with variables of its own, unless `backward_layer` is passed.
    Other values of `merge_mode` are "sum", "mul", "ave", and None for both outputs.

    >>> layer = gt.nn.Bidirectional(gt.nn.LSTM(4, return_sequences=True))
    >>> layer(np.ones((2, 5, 3))).shape
    (2, 5, 8)
    """

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
        """The merged outputs, and the last states of both if they were asked for."""
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
            two = flip(two, axis=0 if first.time_major else 1)
        found = merged(self.merge_mode, one, two)
        if not states:
            return found
        return (*(found if self.merge_mode is None else (found,)), *states)

    def describe(self) -> str:
        """The arguments that `repr` shows."""
        return words(merge_mode=self.merge_mode)


def _reversed(layer: RNN) -> RNN:
    """A layer like another that goes the other way, with variables of its own."""
    made = copy.deepcopy(layer)
    made.go_backwards = not layer.go_backwards
    if made.built:
        cell: Any = made.cell
        cell.build((cell.kernel.shape[0],))
    return made


def check_mode(mode: object) -> None:
    """Raise an error unless outputs can be merged so."""
    if mode not in MODES:
        raise ValueError(f"Bidirectional: merge_mode={mode!r} is unknown. Use one of {MODES}.")


def merged(mode: str | None, one: Tensor, two: Tensor) -> Tensor | tuple[Tensor, Tensor]:
    """The outputs of both directions as one, or both."""
    if mode == "concat":
        return concat([one, two], axis=-1)
    if mode == "sum":
        return one + two
    if mode == "mul":
        return one * two
    return (one + two) / 2.0 if mode == "ave" else (one, two)
