"""Neural networks: modules that hold variables, layers, activations, losses, initialisers.

>>> model = gt.nn.Sequential([gt.nn.Dense(16, activation="relu"), gt.nn.Dense(1)])
>>> model(np.zeros((5, 3))).shape
(5, 1)
>>> [name for name, _ in model.named_parameters()]
['layers.0.kernel', 'layers.0.bias', 'layers.1.kernel', 'layers.1.bias']

Names, arguments, defaults and formulas are those of Keras, where it has them.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from gradtape import storage as _storage
from gradtape.libraries import check_exports as _check_exports, namespace as _namespace
from gradtape.nn import activations, initializers, losses
from gradtape.nn.activations import (
    elu,
    gelu,
    hard_sigmoid,
    leaky_relu,
    log_softmax,
    mish,
    relu,
    selu,
    sigmoid,
    silu,
    softmax,
    softplus,
    swish,
    tanh,
)
from gradtape.nn.cells import GRUCell, LSTMCell, RNNCell
from gradtape.nn.convolutional import (
    AvgPool1D,
    AvgPool2D,
    AvgPool3D,
    Conv1D,
    Conv2D,
    Conv3D,
    Flatten,
    GlobalAvgPool,
    GlobalMaxPool,
    MaxPool1D,
    MaxPool2D,
    MaxPool3D,
)
from gradtape.nn.layers import Dense, Dropout, Embedding, LayerNorm, Sequential
from gradtape.nn.losses import cross_entropy
from gradtape.nn.module import Layer, Module
from gradtape.nn.normalization import BatchNorm, GroupNorm
from gradtape.nn.recurrent import GRU, LSTM, RNN, Bidirectional

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "AvgPool1D",
    "AvgPool2D",
    "AvgPool3D",
    "BatchNorm",
    "Bidirectional",
    "Conv1D",
    "Conv2D",
    "Conv3D",
    "Dense",
    "Dropout",
    "Embedding",
    "Flatten",
    "GRUCell",
    "GlobalAvgPool",
    "GlobalMaxPool",
    "GroupNorm",
    "LSTMCell",
    "Layer",
    "LayerNorm",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
    "Module",
    "RNNCell",
    "Sequential",
    "activations",
    "initializers",
    "losses",
    "cross_entropy",
    "elu",
    "gelu",
    "hard_sigmoid",
    "leaky_relu",
    "log_softmax",
    "mish",
    "relu",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "swish",
    "tanh",
]


_storage.register_library(
    "gradtape.nn", {_n: globals()[_n] for _n in __all__ if isinstance(globals()[_n], type)}
)
_storage.register_library(
    "gradtape.nn.activations", {_n: getattr(activations, _n) for _n in activations.__all__}
)
_storage.register_library(
    "gradtape.nn.initializers",
    {_n: getattr(initializers, _n) for _n in initializers.__all__},
    makes=True,
)


_check_exports(globals(), __all__)

if not _TYPE_CHECKING:
    __getattr__, __dir__ = _namespace(globals())
