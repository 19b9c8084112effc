"""Layers: `tf.keras.layers`."""

from gradtape.tf.keras.functional import Input
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
from gradtape.tf.keras.layers.merging import (
    ELU,
    Add,
    Average,
    Concatenate,
    GaussianNoise,
    Identity,
    LeakyReLU,
    Maximum,
    Minimum,
    Multiply,
    Permute,
    RepeatVector,
    Rescaling,
    Subtract,
    ZeroPadding2D,
    add,
    concatenate,
    multiply,
)
from gradtape.tf.keras.layers.normalization import BatchNormalization, LayerNormalization
from gradtape.tf.suggestions import attribute_finder

__all__ = [
    "Activation", "Add", "Average", "AveragePooling1D", "AveragePooling2D", "AvgPool1D",
    "AvgPool2D", "BatchNormalization", "Concatenate", "Conv1D", "Conv2D", "Convolution1D",
    "Convolution2D", "Dense", "Dropout", "ELU", "Embedding", "Flatten", "GaussianNoise",
    "GlobalAveragePooling2D", "GlobalAvgPool2D", "Identity", "Input", "InputLayer", "Lambda",
    "Layer", "LayerNormalization", "LeakyReLU", "MaxPool1D", "MaxPool2D", "MaxPooling1D",
    "MaxPooling2D", "Maximum", "Minimum", "Multiply", "Permute", "ReLU", "RepeatVector",
    "Rescaling", "Reshape", "Softmax", "Subtract", "ZeroPadding2D", "add", "concatenate",
    "multiply",
]  # fmt: skip

AvgPool1D, AvgPool2D, GlobalAvgPool2D = AveragePooling1D, AveragePooling2D, GlobalAveragePooling2D
MaxPool1D, MaxPool2D, Convolution1D, Convolution2D = MaxPooling1D, MaxPooling2D, Conv1D, Conv2D

__getattr__ = attribute_finder(__name__, globals())
