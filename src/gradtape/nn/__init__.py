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
from gradtape.nn.layers import Dense, Dropout, Embedding, LayerNorm, Sequential
from gradtape.nn.module import Layer, Module
from gradtape.nn.recurrent import GRU, LSTM, RNN, Bidirectional
from gradtape.training.storage import registry as _registry

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "Bidirectional",
    "Dense",
    "Dropout",
    "Embedding",
    "GRUCell",
    "LSTMCell",
    "Layer",
    "LayerNorm",
    "Module",
    "RNNCell",
    "Sequential",
    "activations",
    "initializers",
    "losses",
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
