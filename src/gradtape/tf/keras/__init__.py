"""What Keras users write: layers, models, losses, metrics and optimizers.

>>> model = tf.keras.Sequential(
...     [tf.keras.layers.Dense(4, activation="relu"), tf.keras.layers.Dense(1)]
... )
>>> model(tf.zeros([5, 3])).shape
TensorShape([5, 1])
"""

from gradtape.libraries import check_exports as _check_exports
from gradtape.tf.keras import (
    activations,
    backend,
    callbacks,
    constraints,
    conveniences as utils,
    initializers,
    layers,
    losses,
    metrics,
    models,
    optimizers,
    regularizers,
)
from gradtape.tf.keras.functional import Input
from gradtape.tf.keras.initializers import Initializer
from gradtape.tf.keras.layers.base import Layer
from gradtape.tf.keras.losses import Loss
from gradtape.tf.keras.metrics import Metric
from gradtape.tf.keras.models import Model, Sequential
from gradtape.tf.keras.optimizers import Optimizer
from gradtape.tf.keras.regularizers import Regularizer

__all__ = [
    "Initializer",
    "Input",
    "Layer",
    "Loss",
    "Metric",
    "Model",
    "Optimizer",
    "Regularizer",
    "Sequential",
    "activations",
    "backend",
    "callbacks",
    "constraints",
    "initializers",
    "layers",
    "losses",
    "metrics",
    "models",
    "optimizers",
    "regularizers",
    "utils",
]


_check_exports(globals(), __all__)
