"""Recurrent layers: `gt.nn`'s cells with variables of this face, taken over time."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from gradtape import nn as core
from gradtape.control.scan import scan
from gradtape.errors import ShapeError
from gradtape.libraries import check_exports
from gradtape.nn.recurrent import over_time
from gradtape.tf.base.casting import cast
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.dispatch import operation
from gradtape.tf.base.tensor import adopt
from gradtape.tf.keras import activations, initializers
from gradtape.tf.keras.layers.base import Layer, takes
from gradtape.tf.keras.option_kinds import checked, parameter
from gradtape.tf.ops.arrays import reverse, transpose
from gradtape.tf.ops.creation import zeros
from gradtape.tf.ops.indexing import where

__all__ = [
    "GRU",
    "GRUCell",
    "LSTM",
    "LSTMCell",
    "RNN",
    "SimpleRNN",
    "SimpleRNNCell",
]

_KINDS = ("kernel", "recurrent", "bias")
# What all cells take besides units, activations and initializers; then what layers take.
_OF_CELLS = {
    **{f"{kind}_regularizer": None for kind in _KINDS},
    **{f"{kind}_constraint": None for kind in _KINDS},
    "dropout": 0.0,
    "recurrent_dropout": 0.0,
    "seed": None,
}
_OF_LAYERS = {
    "return_sequences": False,
    "return_state": False,
    "go_backwards": False,
    "stateful": False,
    "unroll": False,
}


class _Cell(Layer):
    """One step in time: a cell of `gt.nn` whose variables are weights of this layer."""

    # The cell, and its own arguments in Keras' order.
    kind: Any = None
    own: ClassVar[dict[str, Any]] = {}

    def __init__(self, units: int, *args: Any, **kwargs: Any) -> None:
        signature = inspect.signature(type(self))
        given = checked(type(self).__name__, signature, (units, *args), kwargs)
        super().__init__(**given.pop("kwargs"))
        if given["recurrent_dropout"]:
            raise ValueError(
                f"{type(self).__name__}: recurrent_dropout={given['recurrent_dropout']} is not "
                "covered. Use dropout, or a cell of your own."
            )
        for name, value in given.items():
            setattr(self, name, activations.get(value) if "activation" in name else value)
        own = {name: given[name] for name in self.own if "initializer" not in name}
        own |= {name: getattr(self, name) for name in own if "activation" in name}
        self._core = self.kind(int(units), name=self.name, **own)
        self._dropout = core.Dropout(given["dropout"], seed=given["seed"])
        self.units = int(units)
        self.state_size: Any = [self.units] * self.kind.states
        if len(self.state_size) == 1:
            self.state_size = self.units
        self.output_size = self.units

    def attributes(self) -> list[Any]:
        """What holds variables; the cell inside has the same ones."""
        return [
            value
            for name, value in vars(self).items()
            if name in ("kernel", "recurrent_kernel", "bias")
        ]

    def build(self, input_shape: Any) -> None:
        inner = self._core
        width = inner.gates * self.units
        shapes = {
            "kernel": (input_shape[-1], width),
            "recurrent": (self.units, width),
            "bias": inner.bias_shape(),
        }
        for kind, shape in shapes.items():
            if kind == "bias" and not inner.use_bias:
                self.bias = None
                continue
            name = "recurrent_kernel" if kind == "recurrent" else kind
            made = self.add_weight(
                shape=shape,
                name=name,
                initializer=self._start(kind),
                regularizer=getattr(self, f"{kind}_regularizer"),
                constraint=getattr(self, f"{kind}_constraint"),
            )
            setattr(self, name, made)
            setattr(inner, name, made)
        inner.dtype, inner.built = self.dtype.dtype, True

    def _start(self, kind: str) -> Any:
        given = initializers.get(getattr(self, f"{kind}_initializer"))
        if kind != "bias" or not getattr(self, "unit_forget_bias", False):
            return given

        def start(shape: Any, dtype: Any) -> Any:
            self._core.bias_initializer = lambda shape, dtype: convert(given(shape, dtype))
            return adopt(self._core.bias_start(shape, dtype.dtype))

        return start

    def get_initial_state(self, batch_size: Any = None) -> list[Any]:
        """Zeros for so many examples."""
        sizes = self.state_size if isinstance(self.state_size, list) else [self.state_size]
        return [zeros([batch_size, size], self.dtype) for size in sizes]

    def thin(self, inputs: Any, training: Any) -> Any:
        """Inputs while training: features that fall, fall in all steps of a sequence."""
        if not training or not self._dropout.rate:
            return inputs
        shape = inputs.spec.shape
        shape = (shape[0], 1, shape[2]) if len(shape) == 3 else shape
        return _thinned(self._dropout, inputs, shape)

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        """Output and list of next states."""
        parts = list(states) if isinstance(states, (list, tuple)) else [states]
        known = tuple(convert(state) for state in parts)
        projected = self._core.project(self.thin(inputs, training))
        output, new = self._core.step(projected, known)
        return adopt(output), [adopt(state) for state in new]


@operation
def _thinned(dropout: Any, inputs: Any, shape: tuple[int, ...]) -> Any:
    return dropout.drop(inputs, shape)


def _with_signature(kind: type, doc: str, layer: bool) -> None:
    own = {**kind.own, **_OF_CELLS}  # type: ignore[attr-defined]
    if layer:
        own = {**own, **_OF_LAYERS, "activity_regularizer": None}
        own["seed"] = own.pop("seed")
    parameters = [parameter("units"), *(parameter(key, value) for key, value in own.items())]
    parameters.append(inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD))
    kind.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    kind.__doc__ = doc


_STARTS = {
    "use_bias": True,
    "kernel_initializer": "glorot_uniform",
    "recurrent_initializer": "orthogonal",
    "bias_initializer": "zeros",
}


class SimpleRNNCell(_Cell):
    kind = core.RNNCell
    own: ClassVar[dict[str, Any]] = {"activation": "tanh", **_STARTS}


class LSTMCell(_Cell):
    kind = core.LSTMCell
    own: ClassVar[dict[str, Any]] = {
        "activation": "tanh",
        "recurrent_activation": "sigmoid",
        **_STARTS,
        "unit_forget_bias": True,
    }


class GRUCell(_Cell):
    kind = core.GRUCell
    own: ClassVar[dict[str, Any]] = {
        "activation": "tanh",
        "recurrent_activation": "sigmoid",
        **_STARTS,
        "reset_after": True,
    }


for _kind, _what in (
    (SimpleRNNCell, "the simplest recurrent network"),
    (LSTMCell, "a long short-term memory"),
    (GRUCell, "a gated recurrent unit"),
):
    _with_signature(
        _kind,
        f"""A step of {_what}: `cell(inputs, states)` gives the output and the next states.

    >>> cell = tf.keras.layers.{_kind.__name__}(4)
    >>> output, states = cell(tf.ones([2, 3]), cell.get_initial_state(2))
    >>> output.shape, len(states) == len(cell.get_initial_state(2))
    (TensorShape([2, 4]), True)
    """,
        layer=False,
    )


class RNN(Layer):
    """A cell taken over the steps of inputs (batch, time, features).

    The cell may be one's own: a layer with `state_size` and `call(inputs, states)`. Steps at which
    a mask (batch, time) is False leave the state as it is, and repeat the last output.

    >>> layer = tf.keras.layers.RNN(tf.keras.layers.LSTMCell(4), return_sequences=True)
    >>> layer(tf.ones([2, 5, 3])).shape
    TensorShape([2, 5, 4])
    """

    supports_masking = True

    def __init__(
        self,
        cell: Any,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        **kwargs: Any,
    ) -> None:
        if stateful:
            raise ValueError(
                f"{type(self).__name__}: stateful=True is not covered. Use return_state, and pass "
                "the state on as initial_state."
            )
        super().__init__(**kwargs)
        if not hasattr(cell, "call") or not hasattr(cell, "state_size"):
            raise ValueError(
                f"RNN: {cell!r} is not a cell. It needs `call(inputs, states)` and `state_size`."
            )
        self.cell = cell
        self.return_sequences, self.return_state = bool(return_sequences), bool(return_state)
        self.go_backwards = bool(go_backwards)
        # Steps are compiled once either way.
        self.unroll = bool(unroll)

    @property
    def units(self) -> Any:
        """The number of outputs of the cell."""
        return self.cell.units

    def build(self, input_shape: Any) -> None:
        if len(input_shape) != 3:
            raise ShapeError(
                f"{self.name}: an input of shape {tuple(input_shape)} is not (batch, time, "
                "features). Reshape it."
            )
        self.cell.ensure_built((input_shape[0], input_shape[2]))

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The mask, if there is an output for each step."""
        found = mask if self.return_sequences else None
        return [found, *(None for _ in self._sizes())] if self.return_state else found

    def _sizes(self) -> list[Any]:
        size = self.cell.state_size
        return list(size) if isinstance(size, (list, tuple)) else [size]

    def call(
        self, sequences: Any, initial_state: Any = None, mask: Any = None, training: bool = False
    ) -> Any:
        """The last output or all, and the last state if it was asked for."""
        if not sequences.shape[1]:
            raise ShapeError(f"{self.name}: the input has no steps in time.")
        state = self._begin(initial_state, sequences)
        if isinstance(self.cell, _Cell):
            sequences = self.cell.thin(sequences, training)
        x = transpose(sequences, [1, 0, 2])
        if mask is not None:
            mask = transpose(cast(convert(mask), "bool"), [1, 0])
        if self.go_backwards:
            x, mask = reverse(x, [0]), None if mask is None else reverse(mask, [0])
        outputs, last, state = _run(self.cell, x, state, mask, training)
        found = (
            transpose(outputs, [1, 0, *range(2, outputs.ndim)]) if self.return_sequences else last
        )
        return (found, *state) if self.return_state else found

    def _begin(self, given: Any, sequences: Any) -> tuple[Any, ...]:
        batch = sequences.shape[0]
        if given is None:
            if hasattr(self.cell, "get_initial_state"):
                given = self.cell.get_initial_state(batch_size=batch)
            else:
                given = [zeros([batch, size], self.dtype) for size in self._sizes()]
        parts = list(given) if isinstance(given, (list, tuple)) else [given]
        found = tuple(cast(convert(part), self.dtype) for part in parts)
        expected = [(batch, size) for size in self._sizes()]
        if [tuple(part.shape) for part in found] != expected:
            raise ShapeError(
                f"{self.name}: a state of shapes {[tuple(part.shape) for part in found]} does not "
                f"fit. It needs {expected}."
            )
        return found


@operation
def _run(cell: Any, x: Any, state: Any, mask: Any, training: Any) -> Any:
    """All outputs, the last one, and the last state."""
    if isinstance(cell, _Cell):
        return adopt(over_time(cell._core, x, state, mask))
    more = {"training": training} if training and takes(cell.call, "training") else {}

    def step(known: Any, now: Any) -> Any:
        before, state = known
        inputs = now if mask is None else now[0]
        output, new = cell(adopt(inputs), [adopt(part) for part in state], **more)
        new = tuple(new) if isinstance(new, (list, tuple)) else (new,)
        if mask is not None:
            counts = adopt(now[1])[:, None]
            output = where(counts, output, adopt(before))
            new = tuple(where(counts, n, o) for n, o in zip(new, state, strict=True))
        return (output, new), output

    # The first output is needed for its shape only, unless the mask leaves it out.
    shown, _ = cell(x[0], list(state), **more)
    (last, state), outputs = scan(
        step, (zeros(shown.shape, shown.dtype), state), x if mask is None else (x, mask)
    )
    return adopt((outputs, last, tuple(state)))


class _OfUnits(RNN):
    """A recurrent layer that makes its cell from a number of units."""

    made_of: Any = None
    own: ClassVar[dict[str, Any]] = {}

    def __init__(self, units: int, *args: Any, **kwargs: Any) -> None:
        signature = inspect.signature(type(self))
        given = checked(type(self).__name__, signature, (units, *args), kwargs)
        rest = given.pop("kwargs")
        of_layer = {name: given.pop(name) for name in _OF_LAYERS}
        rest["activity_regularizer"] = given.pop("activity_regularizer")
        dtype = rest.get("dtype")
        super().__init__(self.made_of(**given, dtype=dtype), **of_layer, **rest)

    def __getattr__(self, name: str) -> Any:
        # Arguments of the cell can be read here, too.
        if name in self.own or name in _OF_CELLS or name == "state_size":
            return getattr(self.__dict__["cell"], name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class SimpleRNN(_OfUnits):
    made_of, own = SimpleRNNCell, SimpleRNNCell.own


class LSTM(_OfUnits):
    made_of, own = LSTMCell, LSTMCell.own


class GRU(_OfUnits):
    made_of, own = GRUCell, GRUCell.own


for _layer in (SimpleRNN, LSTM, GRU):
    _with_signature(
        _layer,
        f"""A `{_layer.made_of.__name__}` over the steps of inputs (batch, time, features).

    >>> layer = tf.keras.layers.{_layer.__name__}(4, return_sequences=True)
    >>> layer(tf.ones([2, 5, 3])).shape
    TensorShape([2, 5, 4])
    """,
        layer=True,
    )


check_exports(globals(), __all__)
