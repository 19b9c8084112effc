"""Batches: what `fit`, `evaluate` and `predict` loop over."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sized
from typing import Any

import numpy as np

from gradtape.errors import ShapeError
from gradtape.pytree import flatten, map_leaves, unflatten
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.ops.random_numbers import shuffle as shuffled


def pack(x: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """Inputs, targets and weights as one element; what is missing at the end is left out."""
    if sample_weight is not None:
        return (x, y, sample_weight)
    if y is not None:
        return (x, y)
    return (x,) if isinstance(x, (list, tuple, dict)) else x


def unpack(data: Any) -> tuple[Any, Any, Any]:
    """Inputs, targets and weights of an element; None for what is not there."""
    if isinstance(data, list):
        data = tuple(data)
    if not isinstance(data, tuple):
        return data, None, None
    if not 1 <= len(data) <= 3:
        raise ValueError(
            f"a batch of {len(data)} parts is not (x,), (x, y) or (x, y, sample_weight)."
        )
    x, y, sample_weight = (*data, None, None)[:3]
    return x, y, sample_weight


def _arrays(given: Any) -> Any:
    """Arrays in a nest; a list of numbers is one of them. Floats are float32, as in Keras."""
    if given is None:
        return None
    leaves = flatten(given)[0]
    if isinstance(given, (list, tuple)) and all(np.ndim(leaf) == 0 for leaf in leaves):
        given = np.asarray(given)

    def array(leaf: Any) -> Any:
        found = leaf.read() if isinstance(leaf, Tensor) else np.asarray(leaf)
        return found.astype(np.float32) if found.dtype.kind == "f" else found

    return map_leaves(array, given)


def is_in_arrays(x: Any) -> bool:
    """Whether inputs are arrays, or lists and dicts of them."""
    if isinstance(x, (list, tuple, dict)):
        return True
    return hasattr(x, "shape") and hasattr(x, "dtype")


class Batches:
    """Elements (x, y, sample_weight), and how many there are in an epoch if that is known."""

    def __init__(self, start: Any, steps: int | None) -> None:
        self._start = start
        self.steps = steps
        self._rest: Iterator[Any] | None = None

    def first(self, steps: int | None) -> Iterator[Any]:
        """The first batches, or all."""
        return itertools.islice(self._start(), steps)

    def of_epoch(self, steps: int | None) -> Iterator[Any]:
        """One epoch; with a number of steps, the next epoch goes on where this one ended.

        Data that run out end the epoch, and the next one begins them again, as in Keras.
        """
        if steps is None:
            yield from self._start()
            return
        for taken in range(steps):
            element = _END if self._rest is None else next(self._rest, _END)
            if element is _END and not taken:
                self._rest = iter(self._start())
                element = next(self._rest, _END)
            if element is _END:
                sentence = (
                    f"the data ended after {taken} of {steps} batches. Call repeat() on it, or "
                    "ask for fewer steps."
                )
                if not taken:
                    raise ValueError(sentence)
                warnings.warn(sentence, stacklevel=2)
                self._rest = None
                return
            yield element


_END = object()


def batches(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    batch_size: int | None = None,
    shuffle: bool = False,
    class_weight: Any = None,
) -> Batches:
    """The batches of arrays, or of anything that can be iterated over."""
    if not is_in_arrays(x):
        for name, given in (("y", y), ("sample_weight", sample_weight)):
            if given is not None:
                raise ValueError(
                    f"{name}: targets and weights are part of the elements of a "
                    f"{type(x).__name__}. Leave {name} out."
                )
        return _of_elements(x, class_weight)
    x, y, sample_weight = _arrays(x), _arrays(y), _arrays(sample_weight)
    if class_weight is not None:
        if sample_weight is not None or y is None:
            raise ValueError("class_weight: give targets, and no sample_weight besides.")
        sample_weight = _weights_of(y, class_weight)
    leaves, structure = flatten((x, y, sample_weight))
    lengths = {np.shape(leaf)[:1] for leaf in leaves}
    if len(lengths) != 1 or () in lengths:
        raise ShapeError(
            "x, y and sample_weight: shapes "
            f"{[np.shape(leaf) for leaf in leaves]} differ in the number of examples. Give as "
            "many of each."
        )
    ((count,),) = lengths
    size = 32 if batch_size is None else int(batch_size)

    def start() -> Iterator[Any]:
        order: Any = None
        if shuffle:
            order = np.asarray(shuffled(np.arange(count, dtype=np.int64)))
        for begin in range(0, count, size):
            rows = slice(begin, begin + size) if order is None else order[begin : begin + size]
            yield pack(*unflatten(structure, [convert(leaf[rows]) for leaf in leaves]))

    return Batches(start, math.ceil(count / size))


def _of_elements(x: Any, class_weight: Any) -> Batches:
    def tensors(element: Any) -> Any:
        element = tuple(element) if isinstance(element, list) else element
        made = map_leaves(convert, element)
        if class_weight is None:
            return made
        inputs, targets, weights = unpack(made)
        if weights is not None:
            raise ValueError("class_weight: elements have weights of their own already.")
        return pack(inputs, targets, convert(_weights_of(np.asarray(targets), class_weight)))

    if callable(x) and not isinstance(x, Iterable):
        raise TypeError(f"{x!r} is not data. Pass arrays, a Dataset or a generator.")
    if hasattr(x, "__getitem__") and hasattr(x, "__len__") and not hasattr(x, "__iter__"):

        def numbered() -> Iterator[Any]:
            yield from (tensors(x[k]) for k in range(len(x)))
            getattr(x, "on_epoch_end", lambda: None)()

        return Batches(numbered, len(x))
    if not isinstance(x, Iterable):
        raise TypeError(
            f"{type(x).__name__} is not data. Pass arrays, a Dataset, a generator or an iterable."
        )
    steps = None
    if hasattr(x, "cardinality"):
        known = int(x.cardinality())
        steps = known if known >= 0 else None
    elif isinstance(x, Sized):
        steps = len(x)
    return Batches(lambda: (tensors(element) for element in x), steps)


def _weights_of(y: Any, class_weight: dict[int, float]) -> Any:
    """The weight of each example, by its class: a number, or the place of the largest."""
    labels = np.asarray(y)
    labels = labels.argmax(-1) if labels.ndim > 1 and labels.shape[-1] > 1 else labels
    labels = labels.reshape(len(labels)).astype(np.int64)
    found = np.ones(len(labels), np.float32)
    for label, number in class_weight.items():
        found[labels == int(label)] = number
    return found


def split(arrays: tuple[Any, ...], share: float) -> tuple[Any, Any]:
    """The first part of arrays, for training, and the last, of a share, for validation."""
    known = [_arrays(each) for each in arrays]
    count = len(flatten(known)[0][0])
    at = math.floor(count * (1.0 - share))
    if not 0 < at < count:
        raise ValueError(
            f"validation_split={share} of {count} examples leaves nothing to one of the parts. "
            "Choose another share, or pass validation_data."
        )
    first, last = (
        map_leaves(lambda leaf, rows=rows: leaf[rows], known)
        for rows in (slice(None, at), slice(at, None))
    )
    return first, last


def joined(parts: list[Any]) -> Any:
    """The outputs of all batches, as NumPy arrays in one nest."""
    leaves, structure = flatten(parts[0])
    columns = [[np.asarray(leaf) for leaf in flatten(part)[0]] for part in parts]
    whole = [np.concatenate([row[k] for row in columns]) for k in range(len(leaves))]
    return unflatten(structure, whole)


def chunks(elements: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Elements in lists of a size, the last of them shorter."""
    remaining = iter(elements)
    while chunk := list(itertools.islice(remaining, size)):
        yield chunk
