"""Layers: `tf.keras.layers`."""

from gradtape.tf.keras.layers.base import InputLayer, Layer
from gradtape.tf.keras.layers.convolutional import (
    AveragePooling1D,
    AveragePooling2D,
    Conv1D,
    Conv2D,
    GlobalAveragePooling2D,
    MaxPooling1D,
    MaxPooling2D,
)
from gradtape.tf.keras.layers.core import (
    Activation,
    Dense,
    Dropout,
    Embedding,
    Flatten,
    Lambda,
    ReLU,
    Reshape,
    Softmax,
)
from gradtape.tf.keras.layers.normalization import BatchNormalization, LayerNormalization
from gradtape.tf.suggestions import attribute_finder

__all__ = [
    "Activation", "AveragePooling1D", "AveragePooling2D", "BatchNormalization", "Conv1D", "Conv2D",
    "Dense", "Dropout", "Embedding", "Flatten", "GlobalAveragePooling2D", "Input", "InputLayer",
    "Lambda", "Layer", "LayerNormalization", "MaxPooling1D", "MaxPooling2D", "ReLU", "Reshape",
    "Softmax",
]  # fmt: skip

Input = InputLayer

__getattr__ = attribute_finder(__name__, globals())
