"""Pooling as layers; channels are last."""

from __future__ import annotations

from typing import Any

from gradtape.ops.reductions import reduction
from gradtape.tf.base.casting import cast
from gradtape.tf.keras.layers.base import Layer, require_channels_last
from gradtape.tf.keras.layers.convolutional import each
from gradtape.tf.ops.pooling import avg_pool, max_pool

__all__ = [
    "AveragePooling1D", "AveragePooling2D", "AveragePooling3D", "AvgPool1D", "AvgPool2D",
    "AvgPool3D", "GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAvgPool1D",
    "GlobalAvgPool2D", "GlobalMaxPool1D", "GlobalMaxPool2D", "GlobalMaxPooling1D",
    "GlobalMaxPooling2D", "MaxPool1D", "MaxPool2D", "MaxPool3D", "MaxPooling1D", "MaxPooling2D",
    "MaxPooling3D",
]  # fmt: skip

_AXES = {1: "one axis", 2: "two axes", 3: "three axes"}


class _Pooling(Layer):
    """What pooling layers share."""

    spatial = 1
    function: Any = staticmethod(max_pool)

    def __init__(
        self, pool_size: Any = 2, strides: Any = None, padding: str = "valid",
        data_format: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(**kwargs)
        require_channels_last(type(self).__name__, data_format)
        if padding.lower() not in ("valid", "same"):
            raise ValueError(f"{self.name}: padding={padding!r} is unknown. Use 'valid' or 'same'.")
        self.pool_size = each(pool_size, self.spatial)
        self.strides = self.pool_size if strides is None else each(strides, self.spatial)
        self.padding = padding.lower()

    def call(self, inputs: Any) -> Any:
        return self.function(inputs, self.pool_size, self.strides, self.padding.upper())


class _Global(Layer):
    """What layers share that leave one number of each channel."""

    spatial = 1
    function: Any = None

    def __init__(self, data_format: Any = None, keepdims: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_channels_last(type(self).__name__, data_format)
        self.keepdims = bool(keepdims)

    def call(self, inputs: Any) -> Any:
        axes = tuple(range(1, self.spatial + 1))
        return self.function(inputs, axis=axes, keepdims=self.keepdims)


def _masked_call(self: Any, inputs: Any, mask: Any = None) -> Any:
    """The mean of the steps that count."""
    if mask is None:
        return _Global.call(self, inputs)
    shares = cast(mask, inputs.dtype)[..., None]
    sums = reduction.sum(inputs * shares, axis=1, keepdims=self.keepdims)
    return sums / reduction.sum(shares, axis=1, keepdims=self.keepdims)


def _made(name: str, base: Any, spatial: int, function: Any, doc: str) -> Any:
    shape = [1, *[4] * spatial, 3]
    result = [1, 3] if base is _Global else [1, *[2] * spatial, 3]
    example = f">>> tf.keras.layers.{name}()(tf.zeros({shape})).shape\n    TensorShape({result})"
    members = {
        "spatial": spatial, "function": staticmethod(function), "__module__": __name__,
        "__doc__": f"{doc} along {_AXES[spatial]}.\n\n    {example}\n    ",
    }  # fmt: skip
    if name == "GlobalAveragePooling1D":
        members |= {"call": _masked_call, "supports_masking": True,
                    "compute_mask": lambda self, inputs, mask=None: None}  # fmt: skip
    return type(name, (base,), members)


_OF_WINDOWS = ((max_pool, "Max", "largest"), (avg_pool, "Average", "mean"))
_OF_ALL = ((reduction.max, "Max", "largest"), (reduction.mean, "Average", "mean"))
MaxPooling1D, MaxPooling2D, MaxPooling3D, AveragePooling1D, AveragePooling2D, AveragePooling3D = (
    _made(f"{word}Pooling{n}D", _Pooling, n, function, f"The {what} of each window")
    for function, word, what in _OF_WINDOWS
    for n in (1, 2, 3)
)
GlobalMaxPooling1D, GlobalMaxPooling2D, GlobalAveragePooling1D, GlobalAveragePooling2D = (
    _made(f"Global{word}Pooling{n}D", _Global, n, function, f"The {what} of each channel")
    for function, word, what in _OF_ALL
    for n in (1, 2)
)

# Keras' other names.
AvgPool1D, AvgPool2D, AvgPool3D = AveragePooling1D, AveragePooling2D, AveragePooling3D
MaxPool1D, MaxPool2D, MaxPool3D = MaxPooling1D, MaxPooling2D, MaxPooling3D
GlobalAvgPool1D, GlobalAvgPool2D = GlobalAveragePooling1D, GlobalAveragePooling2D
GlobalMaxPool1D, GlobalMaxPool2D = GlobalMaxPooling1D, GlobalMaxPooling2D
