"""Layers around layers: Bidirectional, TimeDistributed, and Masking for what they see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradtape.nn.recurrent import MERGED, check_mode
from gradtape.tf.base.casting import cast
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.tensor import adopt
from gradtape.tf.keras.layers.base import Layer, takes
from gradtape.tf.keras.layers.recurrent import RNN
from gradtape.tf.ops.arrays import reshape, reverse
from gradtape.tf.ops.reductions import reduce_any

if TYPE_CHECKING:
    from gradtape.tf.base.tensor import Tensor


class Bidirectional(Layer):
    """A recurrent layer forwards, another one backwards, and their outputs side by side.

    >>> layer = tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(4, return_sequences=True))
    >>> layer(tf.ones([2, 5, 3])).shape
    TensorShape([2, 5, 8])
    """

    supports_masking = True

    def __init__(
        self,
        layer: Any,
        merge_mode: str | None = "concat",
        weights: Any = None,
        backward_layer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if weights is not None:
            raise ValueError("Bidirectional: weights are not covered. Use set_weights.")
        if not isinstance(layer, RNN):
            raise ValueError(f"Bidirectional: {layer!r} is not a recurrent layer.")
        check_mode(merge_mode)
        self.merge_mode = merge_mode
        self.forward_layer = layer
        if backward_layer is None:
            config = {**layer.get_config(), "name": f"backward_{layer.name}"}
            config["go_backwards"] = not layer.go_backwards
            backward_layer = type(layer).from_config(config)
        if backward_layer.go_backwards == layer.go_backwards:
            raise ValueError(
                "Bidirectional: both layers go the same way. Give one of them go_backwards=True."
            )
        self.backward_layer = backward_layer
        self.return_sequences, self.return_state = layer.return_sequences, layer.return_state

    def build(self, input_shape: Any) -> None:
        self.forward_layer.ensure_built(input_shape)
        self.backward_layer.ensure_built(input_shape)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The mask, if there is an output for each step."""
        return mask if self.return_sequences and not self.return_state else None

    def call(
        self, sequences: Any, initial_state: Any = None, mask: Any = None, training: bool = False
    ) -> Any:
        """The merged outputs, and the last states of both if they were asked for."""
        starts: tuple[Any, Any] = (None, None)
        if initial_state is not None:
            half = len(initial_state) // 2
            starts = (list(initial_state[:half]), list(initial_state[half:]))
        one, two = (
            layer(sequences, initial_state=start, mask=mask, training=training)
            for layer, start in zip((self.forward_layer, self.backward_layer), starts, strict=True)
        )
        states: tuple[Any, ...] = ()
        if self.return_state:
            (one, *ones), (two, *twos) = one, two
            states = (*ones, *twos)
        two = reverse(two, [1]) if self.return_sequences else two
        found = adopt(MERGED[self.merge_mode](one, two))
        if not states:
            return found
        return (*(found if self.merge_mode is None else (found,)), *states)


class TimeDistributed(Layer):
    """A layer applied to each step in time, the second axis.

    >>> layer = tf.keras.layers.TimeDistributed(tf.keras.layers.Dense(4))
    >>> layer(tf.ones([2, 5, 3])).shape
    TensorShape([2, 5, 4])
    """

    supports_masking = True

    def __init__(self, layer: Layer, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(layer, Layer):
            raise ValueError(f"TimeDistributed: {layer!r} is not a layer.")
        self.layer = layer

    def build(self, input_shape: Any) -> None:
        self.layer.ensure_built((input_shape[0], *tuple(input_shape)[2:]))

    def call(self, inputs: Tensor, training: bool = False, mask: Tensor | None = None) -> Tensor:
        """What the layer gives for each step, in the order of the steps."""
        batch, steps, *rest = inputs.shape
        more = {"training": training} if training and takes(self.layer.call, "training") else {}
        y = self.layer(reshape(inputs, [batch * steps, *rest]), **more)
        return reshape(y, [batch, steps, *y.shape[1:]])


class Masking(Layer):
    """Steps at which all features have one value do not count for layers after this one.

    >>> x = tf.constant([[[1.0, 2.0], [0.0, 0.0]]])
    >>> tf.keras.layers.Masking()(x)._keras_mask.numpy().tolist()
    [[True, False]]
    """

    supports_masking = True

    def __init__(self, mask_value: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mask_value = mask_value

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        return reduce_any(convert(inputs) != self.mask_value, axis=-1)

    def call(self, inputs: Tensor) -> Tensor:
        """The input, with zeros at the steps that do not count."""
        counts = self.compute_mask(inputs)[..., None]
        return inputs * cast(counts, inputs.dtype)
