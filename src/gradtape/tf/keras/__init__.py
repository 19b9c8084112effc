"""What Keras users write: layers, models, losses, metrics and optimizers.

>>> model = tf.keras.Sequential(
...     [tf.keras.layers.Dense(4, activation="relu"), tf.keras.layers.Dense(1)]
... )
>>> model(tf.zeros([5, 3])).shape
TensorShape([5, 1])
"""

from gradtape.tf.keras import (
    activations,
    initializers,
    layers,
    losses,
    metrics,
    models,
    optimizers,
)
from gradtape.tf.keras.models import Model, Sequential
from gradtape.tf.suggestions import attribute_finder

__all__ = [
    "Model", "Sequential", "activations", "initializers", "layers", "losses", "metrics", "models",
    "optimizers",
]  # fmt: skip

__getattr__ = attribute_finder(__name__, globals())
