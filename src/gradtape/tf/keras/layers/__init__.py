"""Layers: `tf.keras.layers`.

Door: the classes that are listed in `__all__`.
"""

from gradtape.tf.base.suggestions import attribute_finder
from gradtape.tf.keras.functional import Input
from gradtape.tf.keras.layers.base import InputLayer, Layer
from gradtape.tf.keras.layers.convolutional import (
    Conv1D,
    Conv1DTranspose,
    Conv2D,
    Conv2DTranspose,
    Conv3D,
    DepthwiseConv2D,
    UpSampling2D,
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
    average,
    concatenate,
    maximum,
    minimum,
    multiply,
    subtract,
)
from gradtape.tf.keras.layers.normalization import BatchNormalization, LayerNormalization
from gradtape.tf.keras.layers.pooling import (
    AveragePooling1D,
    AveragePooling2D,
    AveragePooling3D,
    GlobalAveragePooling1D,
    GlobalAveragePooling2D,
    GlobalMaxPooling1D,
    GlobalMaxPooling2D,
    MaxPooling1D,
    MaxPooling2D,
    MaxPooling3D,
)
from gradtape.tf.keras.layers.recurrent import (
    GRU,
    LSTM,
    RNN,
    GRUCell,
    LSTMCell,
    SimpleRNN,
    SimpleRNNCell,
)
from gradtape.tf.keras.layers.wrappers import Bidirectional, Masking, TimeDistributed

__all__ = [
    "Activation", "Add", "Average", "AveragePooling1D", "AveragePooling2D", "AveragePooling3D",
    "AvgPool1D", "AvgPool2D", "AvgPool3D", "BatchNormalization", "Bidirectional", "Concatenate",
    "Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D", "Convolution1D",
    "Convolution2D", "Convolution3D", "Dense", "DepthwiseConv2D", "Dropout", "ELU", "Embedding",
    "Flatten", "GRU", "GRUCell", "GaussianNoise", "GlobalAveragePooling1D",
    "GlobalAveragePooling2D", "GlobalAvgPool1D", "GlobalAvgPool2D", "GlobalMaxPool1D",
    "GlobalMaxPool2D", "GlobalMaxPooling1D", "GlobalMaxPooling2D", "Identity", "Input",
    "InputLayer", "LSTM", "LSTMCell", "Lambda", "Layer", "LayerNormalization", "LeakyReLU",
    "Masking", "MaxPool1D", "MaxPool2D", "MaxPool3D", "MaxPooling1D", "MaxPooling2D",
    "MaxPooling3D", "Maximum", "Minimum", "Multiply", "Permute", "RNN", "ReLU", "RepeatVector",
    "Rescaling", "Reshape", "SimpleRNN", "SimpleRNNCell", "Softmax", "Subtract", "TimeDistributed",
    "UpSampling2D", "ZeroPadding2D", "add", "average", "concatenate", "maximum", "minimum",
    "multiply", "subtract",
]  # fmt: skip

# Keras' other names.
AvgPool1D, AvgPool2D, AvgPool3D = AveragePooling1D, AveragePooling2D, AveragePooling3D
MaxPool1D, MaxPool2D, MaxPool3D = MaxPooling1D, MaxPooling2D, MaxPooling3D
GlobalAvgPool1D, GlobalAvgPool2D = GlobalAveragePooling1D, GlobalAveragePooling2D
GlobalMaxPool1D, GlobalMaxPool2D = GlobalMaxPooling1D, GlobalMaxPooling2D
Convolution1D, Convolution2D, Convolution3D = Conv1D, Conv2D, Conv3D

__getattr__ = attribute_finder(__name__, globals())
