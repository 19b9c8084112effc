"""Nests of lists, tuples and dicts: `tf.nest`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradtape.tf.suggestions import attribute_finder

__all__ = ["assert_same_structure", "flatten", "is_nested", "map_structure", "pack_sequence_as"]


def is_nested(seq: Any) -> bool:
    """Whether something is a list, a tuple or a dict.

    >>> tf.nest.is_nested([1]), tf.nest.is_nested(1)
    (True, False)
    """
    return isinstance(seq, (list, tuple, dict))


def _children(structure: Any) -> list[Any]:
    if isinstance(structure, dict):
        return [structure[key] for key in _keys(structure)]
    return list(structure)


def _keys(structure: Any) -> list[Any]:
    try:
        return sorted(structure)
    except TypeError:
        raise TypeError("nest: keys of a dict that cannot be sorted have no order.") from None


def _rebuilt(structure: Any, children: list[Any]) -> Any:
    if isinstance(structure, dict):
        found = dict(zip(_keys(structure), children, strict=True))
        return type(structure)((key, found[key]) for key in structure)
    if hasattr(structure, "_fields"):
        return type(structure)(*children)
    return type(structure)(children)


def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """The leaves of a nest; dicts in the order of their sorted keys.

    >>> tf.nest.flatten({"b": 1, "a": [2, 3]})
    [2, 3, 1]
    """
    if not is_nested(structure):
        return [structure]
    return [leaf for child in _children(structure) for leaf in flatten(child)]


def pack_sequence_as(structure: Any, flat_sequence: Any, expand_composites: bool = False) -> Any:
    """A nest like another around other leaves.

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


def _pack(structure: Any, leaves: Any) -> Any:
    if not is_nested(structure):
        return next(leaves)
    return _rebuilt(structure, [_pack(child, leaves) for child in _children(structure)])


def map_structure(func: Callable[..., Any], *structure: Any, **kwargs: Any) -> Any:
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
    nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False
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


__getattr__ = attribute_finder(__name__, globals())
