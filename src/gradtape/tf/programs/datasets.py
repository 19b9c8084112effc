"""Datasets: Python iterables with TensorFlow's methods: `tf.data`.

Elements are nests of tensors, computed one at a time when a loop needs them; nothing runs in
parallel. Every loop over a dataset starts from the beginning.
"""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

import gradtape as gt
from gradtape import random as streams
from gradtape.errors import ArgumentError, ShapeError
from gradtape.libraries import check_exports
from gradtape.pytree import flatten, unflatten
from gradtape.tf.base.conversion import as_int, convert
from gradtape.tf.base.dtypes import as_dtype
from gradtape.tf.base.shapes import TensorSpec
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import CountLike, DTypeLike, IntLike, Name, SizeLike, UserFunction

__all__ = ["AUTOTUNE", "INFINITE_CARDINALITY", "UNKNOWN_CARDINALITY", "Dataset", "experimental"]

AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY = -1, -1, -2

T = TypeVar("T")


def _tensors(element: object) -> Any:
    """An element as a nest of tensors; a list of numbers is one tensor."""
    if isinstance(element, dict):
        return {key: _tensors(value) for key, value in element.items()}
    if isinstance(element, tuple):
        parts = [_tensors(value) for value in element]
        return type(element)(*parts) if hasattr(element, "_fields") else tuple(parts)
    return convert(element)


def _apply(function: UserFunction, element: object) -> Any:
    """A function of an element, or of its parts if it is a tuple."""
    return function(*element) if type(element) is tuple else function(element)


class Dataset:
    """Elements to loop over.

    >>> dataset = tf.data.Dataset.range(5).map(lambda x: x * x).batch(2)
    >>> [batch.numpy().tolist() for batch in dataset]
    [[0, 1], [4, 9], [16]]
    """

    def __init__(self, start: Callable[[], Iterable[Any]], length: int | None) -> None:
        self._start = start
        # None if it is not known; -1 if it is infinite.
        self._length = length

    # Sources.

    @staticmethod
    def from_tensor_slices(tensors: object, name: Name = None) -> Dataset:
        """The rows of a tensor, or of each tensor of a nest.

        >>> [x.numpy().item() for x in tf.data.Dataset.from_tensor_slices([1, 2])]
        [1, 2]
        """
        leaves, structure = flatten(_tensors(tensors))
        lengths = {leaf.spec.shape[:1] for leaf in leaves}
        if len(lengths) != 1 or () in lengths:
            raise ValueError(
                f"from_tensor_slices: shapes {[leaf.shape for leaf in leaves]} have no first axis "
                "of one length. Reshape, or use from_tensors."
            )
        (count,) = lengths.pop()

        def rows() -> Iterator[Any]:
            arrays = [leaf.read() for leaf in leaves]
            for at in builtins.range(count):
                yield unflatten(structure, [convert(array[at]) for array in arrays])

        return Dataset(rows, count)

    @staticmethod
    def from_tensors(tensors: object, name: Name = None) -> Dataset:
        """A dataset of one element."""
        element = _tensors(tensors)
        return Dataset(lambda: [element], 1)

    @staticmethod
    def from_generator(
        generator: Callable[..., Iterable[Any]],
        output_types: object = None,
        output_shapes: object = None,
        args: Sequence[Any] | None = None,
        output_signature: object = None,
        name: Name = None,
    ) -> Dataset:
        """The elements of a Python generator, in the declared dtypes."""
        declared = output_types if output_signature is None else output_signature
        kinds = [
            kind.dtype if isinstance(kind, TensorSpec) else kind for kind in flatten(declared)[0]
        ]

        def elements() -> Iterator[Any]:
            for element in generator(*(args or ())):
                if len(kinds) == 1 and not isinstance(element, (tuple, dict)):
                    yield convert(np.asarray(element), kinds[0])
                    continue
                leaves, structure = flatten(element)
                if len(kinds) != len(leaves):
                    yield _tensors(element)
                else:
                    made = [
                        convert(np.asarray(x), k)
                        for x, k in builtins.zip(leaves, kinds, strict=True)
                    ]
                    yield unflatten(structure, made)

        return Dataset(elements, None)

    @staticmethod
    def range(*args: IntLike, output_type: DTypeLike = "int64", name: Name = None) -> Dataset:
        """The integers of Python's range."""
        numbers, output_type = builtins.range(*map(as_int, args)), as_dtype(output_type)
        return Dataset(lambda: (convert(np.asarray(n), output_type) for n in numbers), len(numbers))

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: Name = None) -> Dataset:
        """Elements of several datasets side by side, until the shortest ends."""
        parts = datasets if datasets is not None else (args[0] if len(args) == 1 else args)
        leaves, structure = flatten(tuple(parts) if isinstance(parts, list) else parts)
        known = [each._length for each in leaves if each._length != INFINITE_CARDINALITY]
        length = None if None in known else min(known, default=INFINITE_CARDINALITY)
        return Dataset(
            lambda: (
                unflatten(structure, list(row)) for row in builtins.zip(*leaves, strict=False)
            ),
            length,
        )

    # Transformations.

    def map(
        self,
        map_func: UserFunction,
        num_parallel_calls: object = None,
        deterministic: object = None,
        synchronous: object = None,
        use_unbounded_threadpool: bool = False,
        name: Name = None,
    ) -> Dataset:
        """A function applied to each element, in order."""
        return Dataset(
            lambda: (_tensors(_apply(map_func, element)) for element in self), self._length
        )

    def filter(self, predicate: UserFunction, name: Name = None) -> Dataset:
        """The elements for which a predicate holds."""
        return Dataset(lambda: (e for e in self if bool(_apply(predicate, e))), None)

    def batch(
        self,
        batch_size: SizeLike,
        drop_remainder: bool = False,
        num_parallel_calls: object = None,
        deterministic: object = None,
        name: Name = None,
    ) -> Dataset:
        """Groups of `batch_size` elements, stacked."""
        size = int(batch_size)

        def batches() -> Iterator[Any]:
            source = iter(self)
            while rows := list(itertools.islice(source, size)):
                if len(rows) == size or not drop_remainder:
                    yield _stacked(rows)

        length = self._length
        if length is not None and length >= 0:
            length = length // size if drop_remainder else -(-length // size)
        return Dataset(batches, length)

    def unbatch(self, name: Name = None) -> Dataset:
        """The rows of each element."""

        def rows() -> Iterator[Any]:
            for element in self:
                yield from Dataset.from_tensor_slices(element)

        return Dataset(rows, None)

    def shuffle(
        self,
        buffer_size: SizeLike,
        seed: IntLike | None = None,
        reshuffle_each_iteration: bool | None = None,
        name: Name = None,
    ) -> Dataset:
        """Elements in random order, drawn from a buffer of `buffer_size`."""
        size, again = int(buffer_size), reshuffle_each_iteration is not False
        source = streams._generator(None if seed is None else int(seed))
        first = [int(np.asarray(source.bits((1,)))[0])]

        def shuffled() -> Iterator[Any]:
            word = int(np.asarray(source.bits((1,)))[0]) if again else first[0]
            draw = np.random.default_rng(word)
            held: list[Any] = []
            for element in self:
                held.append(element)
                if len(held) >= size:
                    yield _drawn(held, draw)
            while held:
                yield _drawn(held, draw)

        return Dataset(shuffled, self._length)

    def repeat(self, count: IntLike | None = None, name: Name = None) -> Dataset:
        """All elements `count` times, or without end."""
        times = -1 if count is None else int(count)

        def repeated() -> Iterator[Any]:
            rounds = itertools.count() if times < 0 else builtins.range(times)
            for _ in rounds:
                yield from self

        known = self._length
        length = INFINITE_CARDINALITY if times < 0 else None if known is None else known * times
        return Dataset(repeated, length if times < 0 or known != -1 else -1)

    def take(self, count: IntLike, name: Name = None) -> Dataset:
        """The first `count` elements; all of them for -1."""
        most = int(count)
        if most < 0:
            return self
        known = self._length
        length = None if known is None else most if known < 0 else min(known, most)
        return Dataset(lambda: itertools.islice(self, most), length)

    def skip(self, count: IntLike, name: Name = None) -> Dataset:
        """All but the first `count` elements; none of them for -1."""
        most, known = int(count), self._length
        if most < 0:
            return self.take(0)
        length = known if known is None or known < 0 else max(known - most, 0)
        return Dataset(lambda: itertools.islice(self, most, None), length)

    def shard(self, num_shards: SizeLike, index: CountLike, name: Name = None) -> Dataset:
        """Every element of number `index` modulo `num_shards`."""
        if int(index) >= int(num_shards):
            raise ValueError(f"shard: index={index} is not below num_shards={num_shards}.")
        return Dataset(lambda: itertools.islice(self, int(index), None, int(num_shards)), None)

    def enumerate(self, start: IntLike = 0, name: Name = None) -> Dataset:
        """Elements with their numbers."""
        return Dataset(
            lambda: (
                (convert(np.int64(n)), element)
                for n, element in builtins.enumerate(self, int(start))
            ),
            self._length,
        )

    def concatenate(self, dataset: Dataset, name: Name = None) -> Dataset:
        """The elements of this dataset, and then those of another."""
        lengths = (self._length, dataset._length)
        known = None if None in lengths else -1 if -1 in lengths else sum(lengths)  # type: ignore[arg-type]
        return Dataset(lambda: itertools.chain(self, dataset), known)

    def cache(self, filename: str = "", name: Name = None) -> Dataset:
        """The same elements, computed once."""
        if filename:
            raise ValueError(
                f"cache: nothing is written to {filename!r}. Leave it out to keep elements in "
                "memory."
            )
        kept: list[Any] = []
        complete = [False]

        def remembered() -> Iterator[Any]:
            if complete[0]:
                yield from kept
                return
            kept.clear()
            for element in self:
                kept.append(element)
                yield element
            complete[0] = True

        return Dataset(remembered, self._length)

    def prefetch(self, buffer_size: IntLike | None = None, name: Name = None) -> Dataset:
        """The same elements; nothing is read ahead."""
        if buffer_size is not None and int(buffer_size) < AUTOTUNE:
            raise ValueError(
                f"prefetch: buffer_size={buffer_size} is neither AUTOTUNE (-1) nor a number of "
                "elements. Pass one of them."
            )
        return self

    def with_options(self, options: object, name: Name = None) -> Dataset:
        """The same elements; options have no effect."""
        return self

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        """The result of a function of this dataset."""
        return transformation_func(self)

    # Results.

    def reduce(self, initial_state: object, reduce_func: UserFunction, name: Name = None) -> Any:
        """The last value of `state = reduce_func(state, element)`."""
        result = _tensors(initial_state)
        for element in self:
            result = _tensors(reduce_func(result, element))
        return result

    def as_numpy_iterator(self) -> Iterator[Any]:
        """Elements as NumPy arrays."""
        for element in self:
            leaves, structure = flatten(element)
            yield unflatten(structure, [leaf.numpy() for leaf in leaves])

    def cardinality(self, name: Name = None) -> Tensor:
        """The number of elements; -1 if it is infinite, -2 if it is not known."""
        return convert(np.int64(UNKNOWN_CARDINALITY if self._length is None else self._length))

    @property
    def element_spec(self) -> Any:
        """The shape and dtype of the tensors of the first element."""
        leaves, structure = flatten(next(iter(self)))
        return unflatten(structure, [TensorSpec.from_tensor(leaf) for leaf in leaves])

    def __iter__(self) -> Iterator[Any]:
        return iter(self._start())

    def __len__(self) -> int:
        if self._length is None or self._length < 0:
            what = "infinite" if self._length == INFINITE_CARDINALITY else "unknown"
            raise TypeError(f"The dataset is {what}: it has no length.")
        return self._length

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<Dataset of {'unknown length' if self._length is None else self._length}>"


def _stacked(rows: list[Any]) -> Any:
    structure = flatten(rows[0])[1]
    columns = builtins.zip(*(flatten(row)[0] for row in rows), strict=True)
    try:
        return unflatten(structure, [gt.stack(list(column)) for column in columns])
    except ShapeError as error:
        raise ArgumentError(f"batch: elements differ in shape: {error}") from None


def _drawn(held: list[T], draw: np.random.Generator) -> T:
    at = int(draw.integers(len(held)))
    held[at], held[-1] = held[-1], held[at]
    return held.pop()


class experimental:  # noqa: N801 - TensorFlow's name
    """Older places of names.

    >>> tf.data.experimental.AUTOTUNE
    -1
    """

    AUTOTUNE = AUTOTUNE
    INFINITE_CARDINALITY = INFINITE_CARDINALITY
    UNKNOWN_CARDINALITY = UNKNOWN_CARDINALITY

    @staticmethod
    def cardinality(dataset: Dataset) -> Tensor:
        """The number of elements of a dataset."""
        return dataset.cardinality()


check_exports(globals(), __all__)
