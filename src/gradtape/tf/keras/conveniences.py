"""Small things around Keras: `tf.keras.utils`."""

from __future__ import annotations

import random as python_random
from typing import Any

import numpy as np

from gradtape.tf import random
from gradtape.tf.conversion import convert
from gradtape.tf.indexing import one_hot
from gradtape.tf.suggestions import attribute_finder

__all__ = ["normalize", "set_random_seed", "to_categorical"]


def to_categorical(x: Any, num_classes: int | None = None) -> Any:
    """Integers as rows with a 1 at the place that they name; an array of arrays.

    >>> tf.keras.utils.to_categorical([0, 2], 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    if hasattr(x, "enter"):
        classes = int(np.max(convert(x).numpy())) + 1 if num_classes is None else num_classes
        return one_hot(x, classes)
    numbers = np.asarray(x, np.int64)
    if numbers.shape and numbers.shape[-1] == 1 and numbers.ndim > 1:
        numbers = numbers[..., 0]
    return np.eye(int(numbers.max()) + 1 if num_classes is None else num_classes)[numbers]


def normalize(x: Any, axis: int = -1, order: int = 2) -> Any:
    """An array over its norms along an axis.

    >>> tf.keras.utils.normalize(np.array([[3.0, 4.0]])).tolist()
    [[0.6, 0.8]]
    """
    norms = np.atleast_1d(np.linalg.norm(x, order, axis))
    norms[norms == 0] = 1
    return x / np.expand_dims(norms, axis)


def set_random_seed(seed: int) -> None:
    """Begin anew the random numbers of this face, of NumPy and of Python.

    >>> tf.keras.utils.set_random_seed(1)
    """
    python_random.seed(seed)
    np.random.seed(seed)
    random.set_seed(seed)


__getattr__ = attribute_finder(__name__, globals())
