"""Neural networks: modules that hold variables, layers, activations, losses, initialisers.

>>> model = gt.nn.Sequential([gt.nn.Dense(16, activation="relu"), gt.nn.Dense(1)])
>>> model(np.zeros((5, 3))).shape
(5, 1)
>>> [name for name, _ in model.named_parameters()]
['layers.0.kernel', 'layers.0.bias', 'layers.1.kernel', 'layers.1.bias']

Names, arguments, defaults and formulas are those of Keras, where it has them.
"""

from gradtape.argument_checks import check_exports as _check_exports
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
from gradtape.training.storage import registry as _registry

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


_registry.register_library(
    "nn", {_name: globals()[_name] for _name in __all__ if isinstance(globals()[_name], type)}
)
_registry.register_table(
    "gradtape.nn.activations", lambda: {n: getattr(activations, n) for n in activations.__all__}
)
_registry.register_table(
    "gradtape.nn.initializers",
    lambda: {n: getattr(initializers, n) for n in initializers.__all__},
    makes=True,
)


_check_exports(globals(), __all__)
