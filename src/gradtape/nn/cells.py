"""Cells: one step in time of a recurrent network, with Keras' weights and order of gates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradtape as gt
from gradtape import Tensor
from gradtape.errors import ShapeError
from gradtape.libraries import check_exports
from gradtape.nn import activations, initializers
from gradtape.nn.activations import ActivationLike
from gradtape.nn.initializers import InitializerLike
from gradtape.nn.layers import project
from gradtape.nn.module import Layer
from gradtape.typing import Count, DTypeLike, Size, TensorLike

__all__ = ["GRUCell", "LSTMCell", "RNNCell"]

CellState = tuple[Tensor, ...]
# One tensor or several, or None for zeros.
StateLike = TensorLike | Sequence[TensorLike] | None


class Cell(Layer):
    """The base of cells: kernel, recurrent kernel, bias, and a state of one or more vectors.

    A step is split in two. `project` depends on the input alone, so a layer computes it for all
    steps in one product; `step` does the rest.
    """

    # The number of vectors of length `units` of the state, and of the gates.
    states = 1
    gates = 1
    shown = ("units", "activation")

    def __init__(
        self,
        units: Size,
        activation: ActivationLike = "tanh",
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        recurrent_initializer: InitializerLike = "orthogonal",
        bias_initializer: InitializerLike = "zeros",
        *,
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name, dtype)
        self.units = int(units)
        self.activation = activations.get(activation) or activations.linear
        self.use_bias = bool(use_bias)
        self.kernel_initializer = kernel_initializer
        self.recurrent_initializer = recurrent_initializer
        self.bias_initializer = bias_initializer
        self.kernel: Any = None
        self.recurrent_kernel: Any = None
        self.bias: Any = None

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Make kernel, recurrent kernel and bias."""
        width = self.gates * self.units
        self.kernel = self.add_variable("kernel", (input_shape[-1], width), self.kernel_initializer)
        self.recurrent_kernel = self.add_variable(
            "recurrent_kernel", (self.units, width), self.recurrent_initializer
        )
        if self.use_bias:
            self.bias = self.add_variable("bias", self.bias_shape(), self.bias_start)

    def bias_shape(self) -> tuple[int, ...]:
        """The shape of the bias."""
        return (self.gates * self.units,)

    def bias_start(self, shape: tuple[int, ...], dtype: DTypeLike | None) -> Tensor:
        """The starting value of the bias."""
        return initializers.get(self.bias_initializer)(shape, dtype)

    def project(self, x: Tensor) -> Tensor:
        """The gates' share of inputs of shape (..., features)."""
        y = project(self.name, x, self.kernel)
        return y if self.bias is None else y + self.bias

    def step(self, projected: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """Output and next state, from a projected input and the state."""
        raise NotImplementedError

    def initial_state(self, batch: Count) -> CellState:
        """A state of zeros for `batch` examples."""
        dtype = gt.default_dtype() if self.dtype is None else self.dtype
        return tuple(gt.zeros((batch, self.units), dtype=dtype) for _ in range(self.states))

    def as_state(self, state: StateLike, batch: Count) -> CellState:
        """The checked state from one tensor or a list of them; zeros for None."""
        if state is None:
            return self.initial_state(batch)
        parts = tuple(state) if isinstance(state, (list, tuple)) else (state,)
        parts = tuple(self.cast_input(gt.asarray(part)) for part in parts)
        expected = [(batch, self.units)] * self.states
        if [part.shape for part in parts] != expected:
            raise ShapeError(
                f"{self.name}: a state of shapes {[part.shape for part in parts]} does not fit. "
                f"It needs {expected}."
            )
        return parts

    def call(self, x: Tensor, state: StateLike = None) -> tuple[Tensor, list[Tensor]]:
        """Output and list of next states, for inputs of shape (batch, features)."""
        output, new = self.step(self.project(x), self.as_state(state, x.shape[0]))
        return output, list(new)


class RNNCell(Cell):
    """A step of the simplest recurrent network: h = activation(x @ kernel + h @ recurrent + bias).

    >>> cell = gt.nn.RNNCell(4)
    >>> output, [h] = cell(np.ones((2, 3)))
    >>> output.shape, h.shape
    ((2, 4), (2, 4))
    """

    def step(self, projected: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """Output and next state, which are the same."""
        h = self.activation(projected + state[0] @ self.recurrent_kernel)
        return h, (h,)


class LSTMCell(Cell):
    """A step of a long short-term memory (Hochreiter and Schmidhuber 1997), state [h, c].

    With the gates i, f, c, o side by side in that order in the weights, as in Keras,

        i, f, g, o = x @ kernel + h @ recurrent_kernel + bias
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(c)

    With `unit_forget_bias` the bias of f begins at 1.

    >>> cell = gt.nn.LSTMCell(4)
    >>> output, [h, c] = cell(np.ones((2, 3)))
    >>> output.shape, c.shape, cell.kernel.shape
    ((2, 4), (2, 4), (3, 16))
    """

    states = 2
    gates = 4

    def __init__(
        self,
        units: Size,
        activation: ActivationLike = "tanh",
        recurrent_activation: ActivationLike = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        recurrent_initializer: InitializerLike = "orthogonal",
        bias_initializer: InitializerLike = "zeros",
        unit_forget_bias: bool = True,
        *,
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            units,
            activation,
            use_bias,
            kernel_initializer,
            recurrent_initializer,
            bias_initializer,
            dtype=dtype,
            name=name,
        )
        self.recurrent_activation = activations.get(recurrent_activation) or activations.linear
        self.unit_forget_bias = bool(unit_forget_bias)

    def bias_start(self, shape: tuple[int, ...], dtype: DTypeLike | None) -> Tensor:
        """The starting value of the bias, 1 for the forget gate."""
        start = initializers.get(self.bias_initializer)
        if not self.unit_forget_bias:
            return start(shape, dtype)
        n = self.units
        return gt.concat([start((n,), dtype), gt.ones((n,), dtype=dtype), start((2 * n,), dtype)])

    def step(self, projected: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """Output and next state (h, c)."""
        h, c = state
        i, f, g, o = gt.split(projected + h @ self.recurrent_kernel, 4, axis=-1)
        gate = self.recurrent_activation
        c = gate(f) * c + gate(i) * self.activation(g)
        h = gate(o) * self.activation(c)
        return h, (h, c)


class GRUCell(Cell):
    """A step of a gated recurrent unit (Cho et al. 2014), with gates z, r, h in the weights.

    With `reset_after`, the default, the bias has two rows b and c, and

        z, r, g = x @ kernel + b          u, s, k = h @ recurrent_kernel + c
        z, r = sigmoid(z + u), sigmoid(r + s)
        h = z * h + (1 - z) * tanh(g + r * k)

    Without it the gate r acts before the product: tanh(g + (r * h) @ recurrent_kernel), and there
    is one row of bias. Both are as in Keras.

    >>> cell = gt.nn.GRUCell(4)
    >>> output, [h] = cell(np.ones((2, 3)))
    >>> output.shape, cell.bias.shape
    ((2, 4), (2, 12))
    """

    gates = 3

    def __init__(
        self,
        units: Size,
        activation: ActivationLike = "tanh",
        recurrent_activation: ActivationLike = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        recurrent_initializer: InitializerLike = "orthogonal",
        bias_initializer: InitializerLike = "zeros",
        reset_after: bool = True,
        *,
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            units,
            activation,
            use_bias,
            kernel_initializer,
            recurrent_initializer,
            bias_initializer,
            dtype=dtype,
            name=name,
        )
        self.recurrent_activation = activations.get(recurrent_activation) or activations.linear
        self.reset_after = bool(reset_after)

    def bias_shape(self) -> tuple[int, ...]:
        """One row of bias for the input, and with `reset_after` one for the state."""
        return (2, 3 * self.units) if self.reset_after else (3 * self.units,)

    def project(self, x: Tensor) -> Tensor:
        """The gates' share of inputs of shape (..., features)."""
        y = project(self.name, x, self.kernel)
        if self.bias is None:
            return y
        return y + (self.bias[0] if self.reset_after else self.bias)

    def step(self, projected: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """Output and next state, which are the same."""
        (h,) = state
        gate, n = self.recurrent_activation, self.units
        z, r, g = gt.split(projected, 3, axis=-1)
        if self.reset_after:
            inner = h @ self.recurrent_kernel
            inner = inner if self.bias is None else inner + self.bias[1]
            from_z, from_r, from_h = gt.split(inner, 3, axis=-1)
            z, r = gate(z + from_z), gate(r + from_r)
            g = self.activation(g + r * from_h)
        else:
            gates, last = gt.split(self.recurrent_kernel, [2 * n], axis=1)
            from_z, from_r = gt.split(h @ gates, 2, axis=-1)
            z, r = gate(z + from_z), gate(r + from_r)
            g = self.activation(g + (r * h) @ last)
        h = z * h + (1.0 - z) * g
        return h, (h,)


check_exports(globals(), __all__)
