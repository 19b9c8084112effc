"""Nests of lists, tuples and dicts: `tf.nest`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gradtape.libraries import check_exports

__all__ = ["assert_same_structure", "flatten", "is_nested", "map_structure", "pack_sequence_as"]


def is_nested(seq: object) -> bool:
    """Whether something is a list, a tuple or a dict.

    >>> tf.nest.is_nested([1]), tf.nest.is_nested(1)
    (True, False)
    """
    return isinstance(seq, (list, tuple, dict))


def _children(structure: Any) -> list[object]:
    if isinstance(structure, dict):
        return [structure[key] for key in _keys(structure)]
    return list(structure)


def _keys(structure: dict[Any, object]) -> list[Any]:
    try:
        return sorted(structure)
    except TypeError:
        raise TypeError("nest: the keys of a dict must be sortable.") from None


def _rebuilt(structure: Any, children: list[object]) -> Any:
    if isinstance(structure, dict):
        result = dict(zip(_keys(structure), children, strict=True))
        return type(structure)((key, result[key]) for key in structure)
    if hasattr(structure, "_fields"):
        return type(structure)(*children)
    return type(structure)(children)


def flatten(structure: object, expand_composites: bool = False) -> list[Any]:
    """The leaves of a nest; those of a dict in the order of its sorted keys.

    >>> tf.nest.flatten({"b": 1, "a": [2, 3]})
    [2, 3, 1]
    """
    try:
        return _leaves(structure)
    except RecursionError:
        raise ValueError(
            f"flatten: a {type(structure).__name__} contains itself, or is nested too deeply. Pass "
            "a nest with fewer levels."
        ) from None


def _leaves(structure: object) -> list[Any]:
    if not is_nested(structure):
        return [structure]
    return [leaf for child in _children(structure) for leaf in _leaves(child)]


def pack_sequence_as(
    structure: object, flat_sequence: Sequence[object], expand_composites: bool = False
) -> Any:
    """Other leaves in the structure of a nest.

    >>> tf.nest.pack_sequence_as({"a": 0, "b": [0, 0]}, [1, 2, 3])
    {'a': 1, 'b': [2, 3]}
    """
    leaves = list(flat_sequence)
    count = len(flatten(structure))
    if len(leaves) != count:
        raise ValueError(
            f"pack_sequence_as: the structure has {count} leaves and {len(leaves)} were given."
        )
    return _pack(structure, iter(leaves))


def _pack(structure: object, leaves: Iterator[object]) -> object:
    if not is_nested(structure):
        return next(leaves)
    return _rebuilt(structure, [_pack(child, leaves) for child in _children(structure)])


def map_structure(func: Callable[..., object], *structure: object, **kwargs: bool) -> Any:
    """Apply a function to the leaves of nests of one structure.

    >>> tf.nest.map_structure(lambda a, b: a + b, {"x": 1}, {"x": 10})
    {'x': 11}
    """
    if not structure:
        raise ValueError("map_structure: give at least one structure.")
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types=kwargs.get("check_types", True))
    rows = zip(*(flatten(each) for each in structure), strict=True)
    return pack_sequence_as(structure[0], [func(*row) for row in rows])


def assert_same_structure(
    nest1: object, nest2: object, check_types: bool = True, expand_composites: bool = False
) -> None:
    """Raise unless two nests have one structure: a ValueError, or a TypeError for other types.

    >>> tf.nest.assert_same_structure([1, (2,)], [3, (4,)])
    """
    if is_nested(nest1) != is_nested(nest2):
        raise ValueError(
            f"the two structures don't have the same nested structure: {nest1!r} and {nest2!r}."
        )
    if not is_nested(nest1):
        return
    if check_types and type(nest1) is not type(nest2):
        raise TypeError(
            f"the two structures don't have the same sequence type: {type(nest1).__name__} and "
            f"{type(nest2).__name__}."
        )
    if isinstance(nest1, dict) and isinstance(nest2, dict) and set(nest1) != set(nest2):
        raise ValueError(
            f"the two dictionaries don't have the same keys: {sorted(map(str, nest1))} and "
            f"{sorted(map(str, nest2))}."
        )
    first, second = _children(nest1), _children(nest2)
    if len(first) != len(second):
        raise ValueError(
            f"the two structures don't have the same number of elements: {len(first)} and "
            f"{len(second)}."
        )
    for a, b in zip(first, second, strict=True):
        assert_same_structure(a, b, check_types)


check_exports(globals(), __all__)
