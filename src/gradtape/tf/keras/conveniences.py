"""Small things around Keras: `tf.keras.utils`."""

from __future__ import annotations

import random as python_random
from typing import Any

import numpy as np

from gradtape.libraries import check_exports, normalize_axis, shown
from gradtape.tf import random
from gradtape.tf.base.conversion import convert
from gradtape.tf.keras.batches import pack, unpack
from gradtape.tf.ops.indexing import one_hot
from gradtape.typing import Count, Size

__all__ = [
    "PyDataset",
    "Sequence",
    "normalize",
    "pack_x_y_sample_weight",
    "pad_sequences",
    "set_random_seed",
    "to_categorical",
    "unpack_x_y_sample_weight",
]


def pack_x_y_sample_weight(x: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """Inputs, targets and weights as one element of data; what is missing is left out.

    >>> tf.keras.utils.pack_x_y_sample_weight(1, 2)
    (1, 2)
    """
    return pack(x, y, sample_weight)


def unpack_x_y_sample_weight(data: Any) -> Any:
    """Inputs, targets and weights of an element of data; None for what is not there.

    >>> tf.keras.utils.unpack_x_y_sample_weight((1, 2))
    (1, 2, None)
    """
    return unpack(data)


class PyDataset:
    """Data by number: derive your own with `__len__` and `__getitem__`, which gives a batch.

    >>> class Squares(tf.keras.utils.PyDataset):
    ...     def __len__(self):
    ...         return 2
    ...
    ...     def __getitem__(self, index):
    ...         x = np.arange(4.0)[:, None] + index
    ...         return x, x * x
    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    >>> model.compile("sgd", "mse")
    >>> len(model.fit(Squares(), epochs=2, verbose=0).epoch)
    2
    """

    def __init__(
        self, workers: Count = 1, use_multiprocessing: bool = False, max_queue_size: Count = 10
    ) -> None:
        # Batches are read one after the other, whatever is said here.
        self.workers, self.max_queue_size = workers, max_queue_size
        self.use_multiprocessing = use_multiprocessing

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__}: a dataset needs `__len__`.")

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: a dataset needs `__getitem__`.")

    def on_epoch_end(self) -> None:
        """Called after each epoch, to shuffle for instance."""


Sequence = PyDataset


def pad_sequences(
    sequences: Any,
    maxlen: Count | None = None,
    dtype: Any = "int32",
    padding: str = "pre",
    truncating: str = "pre",
    value: float = 0.0,
) -> Any:
    """Lists of different lengths as the rows of one array.

    >>> tf.keras.utils.pad_sequences([[1], [2, 3]]).tolist()
    [[0, 1], [2, 3]]
    """
    for word, given in (("padding", padding), ("truncating", truncating)):
        if given not in ("pre", "post"):
            raise ValueError(f'pad_sequences: {word}={given!r} is not "pre" or "post".')
    rows = [np.asarray(row) for row in sequences]
    if any(not row.ndim for row in rows):
        raise ValueError(f"pad_sequences: {shown(sequences)} holds no sequences. Pass lists.")
    length = max((len(row) for row in rows), default=0) if maxlen is None else int(maxlen)
    rest = next((row.shape[1:] for row in rows if len(row)), ())
    found = np.full((len(rows), length, *rest), value, dtype)
    for at, row in enumerate(rows):
        cut = row[len(row) - min(len(row), length) :] if truncating == "pre" else row[:length]
        if len(cut):
            place = slice(length - len(cut), None) if padding == "pre" else slice(len(cut))
            found[at, place] = cut
    return found


def to_categorical(x: Any, num_classes: Size | None = None) -> Any:
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
    axis = normalize_axis("normalize", axis, np.ndim(x))
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


check_exports(globals(), __all__)
