"""Pytrees: nests of containers are flattened to their leaves and rebuilt around new ones.

Lists, tuples, dicts, dataclasses and classes that `register_pytree` names are containers; None is a
container without leaves; everything else is a leaf.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from numbers import Integral
from typing import TYPE_CHECKING as _TYPE_CHECKING, Any, TypeVar

from gradtape.caches import remembered
from gradtape.errors import shown
from gradtape.records import dataclass
from gradtape.suggestions import namespace as _namespace

__all__ = [
    "flatten",
    "flatten_up_to",
    "leaf_names",
    "map_leaves",
    "register_pytree",
    "registered",
    "registered_classes",
    "spread_prefix",
    "unflatten",
    "with_more",
]

Kind = TypeVar("Kind", bound=type)
# A nest that a function gives back in the same structure.
Tree = TypeVar("Tree")
FlattenRule = Callable[[Any], tuple[Iterable[object], object]]
UnflattenRule = Callable[[Any, Sequence[Any]], object]

# Types that turned out to be leaves. Looking them up here is cheaper than `_children`.
_leaf_types: set[type] = set()
# The flag of classes that are made while the program runs.
_HEAP_TYPE = 1 << 9
_ROWS: frozenset[type] = frozenset((list, tuple))
_registered: dict[type, tuple[FlattenRule, UnflattenRule]] = {}


class _Keys(tuple[object, ...]):
    """The keys of a defaultdict, and the factory of its missing entries."""

    factory: Callable[[], object] | None

    def __new__(cls, keys: Iterable[object], factory: Callable[[], object] | None) -> _Keys:
        found = super().__new__(cls, keys)
        found.factory = factory
        return found


@dataclass(frozen=True)
class Structure:
    """The containers of a nest without its leaves. `kind` is None for a leaf.

    `context` is needed to rebuild the container: the keys of a dict, the names of the fields of a
    dataclass, or the context that `flatten` of a registered class returned.
    """

    kind: Any
    context: Any
    children: tuple[Structure, ...]

    @property
    def count(self) -> int:
        return 1 if self.kind is None else sum(child.count for child in self.children)


LEAF = Structure(None, None, ())


def register_pytree(kind: Kind, flatten: FlattenRule, unflatten: UnflattenRule) -> Kind:
    """Make a class a container.

    `flatten(x)` gives (children, context) and `unflatten(context, children)` gives x back.

    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> _ = gt.register_pytree(Pair, lambda p: ((p.a, p.b), None), lambda _, c: Pair(*c))
    >>> gt.pytree.flatten(Pair(1, [2, 3]))[0]
    [1, 2, 3]
    """
    if not isinstance(kind, type) or not callable(flatten) or not callable(unflatten):
        raise TypeError(
            f"register_pytree: {kind!r}, {flatten!r} and {unflatten!r} are not a class and two "
            "functions. Pass the class, and functions that take it apart and put it together."
        )
    _registered[kind] = (flatten, unflatten)
    _leaf_types.discard(kind)
    return kind


def registered(kind: type) -> tuple[FlattenRule, UnflattenRule] | None:
    """The functions with which a class was registered as a container, if it was.

    >>> gt.pytree.registered(int) is None
    True
    """
    return _registered.get(kind)


def registered_classes() -> list[type]:
    """The classes that were registered as containers.

    >>> isinstance(gt.pytree.registered_classes(), list)
    True
    """
    return list(_registered)


def _children(tree: Any) -> tuple[type, Any, tuple[Any, ...]] | None:
    """Kind, context and children of a container; None for a leaf."""
    kind = type(tree)
    if kind in _registered:
        children, context = _registered[kind][0](tree)
        return kind, context, tuple(children)
    if tree is None:
        return type(None), None, ()
    if kind is list:
        return list, None, tuple(tree)
    if isinstance(tree, tuple):
        return kind, None, tuple(tree)
    if isinstance(tree, dict):
        if isinstance(tree, defaultdict):
            return kind, _Keys(tree, tree.default_factory), tuple(tree.values())
        return kind, tuple(tree), tuple(tree.values())
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        names = tuple(field.name for field in dataclasses.fields(tree))
        return kind, names, tuple(getattr(tree, name) for name in names)
    return None


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of a nest, and its structure.

    >>> gt.pytree.flatten({"a": 1, "b": (2, 3)})[0]
    [1, 2, 3]
    """
    kind: Any = type(tree)
    if kind in _leaf_types:
        return [tree], LEAF
    if kind in _ROWS and kind not in _registered and _leaf_types.issuperset(map(type, tree)):
        # A row of leaves, the most common nest: its structure is known.
        return list(tree), _row(kind, len(tree))
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


@remembered(256)
def _row(kind: type, count: int) -> Structure:
    return Structure(kind, None, (LEAF,) * count)


def _flatten(tree: object, leaves: list[Any]) -> Structure:
    if type(tree) in _leaf_types:
        leaves.append(tree)
        return LEAF
    found = _children(tree)
    if found is None:
        # Only classes that live as long as the process: others must not be kept alive here.
        kind = type(tree)
        if not kind.__flags__ & _HEAP_TYPE or kind.__module__.partition(".")[0] == "gradtape":
            _leaf_types.add(kind)
        leaves.append(tree)
        return LEAF
    kind, context, children = found
    try:
        return Structure(kind, context, tuple([_flatten(child, leaves) for child in children]))
    except RecursionError:
        raise ValueError(
            f"a {kind.__name__} contains itself, or is nested too deeply. Pass a nest with fewer "
            "levels."
        ) from None


def _no_structure(name: str, given: object) -> TypeError:
    return TypeError(f"{name}: {type(given).__name__} is not a structure. Pass what flatten gave.")


def with_more(tree: object, structure: Structure) -> list[object]:
    """The dataclass instances in a nest that have attributes besides their fields.

    >>> gt.pytree.with_more([1, 2], gt.pytree.flatten([1, 2])[1])
    []
    """
    try:
        kind = structure.kind
    except AttributeError:
        raise _no_structure("with_more", structure) from None
    if not structure.children:
        return []
    found = []
    if dataclasses.is_dataclass(kind) and kind not in _registered:
        found = [tree] if len(getattr(tree, "__dict__", ())) > len(structure.context) else []
    children: Any = _children(tree)
    if children is None or len(children[2]) != len(structure.children):
        raise ValueError(f"with_more: this {type(tree).__name__} does not have that structure.")
    for child, below in zip(children[2], structure.children, strict=True):
        found += with_more(child, below)
    return found


def flatten_up_to(structure: Structure, tree: object, name: str) -> list[Any]:
    """The parts of `tree` that stand where `structure` has its leaves.

    >>> _, structure = gt.pytree.flatten((0, 0))
    >>> gt.pytree.flatten_up_to(structure, [[1.0, 2.0], 3.0], "weights")
    [[1.0, 2.0], 3.0]
    """
    try:
        if structure.kind is None:
            return [tree]
    except AttributeError:
        raise _no_structure("flatten_up_to", structure) from None
    found = _children(tree)
    count = len(structure.children)
    children = () if found is None else found[2]
    if isinstance(tree, dict) and issubclass(structure.kind, dict):
        if set(tree) != set(structure.context):
            raise ValueError(
                f"{name}: expected {count} parts with keys {sorted(map(str, structure.context))}, "
                f"got keys {sorted(map(str, tree))}. Give one for each."
            )
        children = tuple(tree[key] for key in structure.context)
    if len(children) != count:
        raise ValueError(
            f"{name}: expected {count} parts in the structure of {structure.kind.__name__}, got "
            f"{len(children)}. Give one for each."
        )
    parts = zip(structure.children, children, strict=True)
    return [leaf for child, part in parts for leaf in flatten_up_to(child, part, name)]


def unflatten(structure: Structure, leaves: Iterable[object]) -> Any:
    """A nest of this structure around these leaves.

    >>> leaves, structure = gt.pytree.flatten([1, {"a": 2}])
    >>> gt.pytree.unflatten(structure, [x * 10 for x in leaves])
    [10, {'a': 20}]
    """
    try:
        kind = structure.kind
        left = iter(leaves)
    except AttributeError:
        raise _no_structure("unflatten", structure) from None
    except TypeError:
        raise TypeError(f"unflatten: {leaves!r} are not leaves. Pass a list of them.") from None
    if kind in _ROWS and structure is _row(kind, len(structure.children)):
        found = kind(leaves)
        if len(found) == len(structure.children):
            return found
        left = iter(found)
    try:
        return _unflatten(structure, left)
    except StopIteration:
        raise ValueError(f"unflatten: there are not {structure.count} leaves. Pass all.") from None


def _unflatten(structure: Structure, leaves: Iterator[object]) -> Any:
    kind = structure.kind
    if kind is None:
        return next(leaves)
    if kind is type(None):
        return None
    children = [_unflatten(child, leaves) for child in structure.children]
    if kind in _registered:
        return _registered[kind][1](structure.context, children)
    if kind is list:
        return children
    if issubclass(kind, tuple):
        return kind(*children) if hasattr(kind, "_fields") else kind(children)
    if issubclass(kind, defaultdict):
        return kind(structure.context.factory, zip(structure.context, children, strict=True))
    if issubclass(kind, dict):
        return kind(zip(structure.context, children, strict=True))
    # The constructor of a dataclass may validate, convert or compute, and the leaves may be
    # stand-ins: it is not called.
    rebuilt: object = object.__new__(kind)
    for name, value in zip(structure.context, children, strict=True):
        object.__setattr__(rebuilt, name, value)
    return rebuilt


def leaf_names(structure: Structure, name: str) -> list[str]:
    """The name of each leaf, for errors.

    >>> _, structure = gt.pytree.flatten({"a": 1, "b": [2, 3]})
    >>> gt.pytree.leaf_names(structure, "x")
    ["x['a']", "x['b'][0]", "x['b'][1]"]
    """
    if not isinstance(name, str):
        raise TypeError(f"leaf_names: name={shown(name)} is not a text. Pass one.")
    try:
        kind = structure.kind
    except AttributeError:
        raise _no_structure("leaf_names", structure) from None
    if kind is None:
        return [name]
    if kind is type(None):
        return []
    if isinstance(kind, type) and issubclass(kind, dict) and kind not in _registered:
        paths = [f"{name}[{key!r}]" for key in structure.context]
    elif isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind not in _registered:
        paths = [f"{name}.{field}" for field in structure.context]
    elif hasattr(kind, "_fields"):
        paths = [f"{name}.{field}" for field in kind._fields]
    else:
        paths = [f"{name}[{number}]" for number in range(len(structure.children))]
    parts = zip(structure.children, paths, strict=True)
    return [leaf for child, path in parts for leaf in leaf_names(child, path)]


def map_leaves(function: Callable[..., object], tree: object, *rest: object) -> Any:
    """Apply a function to every leaf; further nests must have the same structure.

    >>> gt.pytree.map_leaves(lambda a, b: a + b, [1, 2], [10, 20])
    [11, 22]
    """
    if not callable(function):
        raise TypeError(f"map_leaves: {shown(function)} is not callable. Pass a function.")
    if not rest and type(tree) in _leaf_types:
        return function(tree)
    leaves, structure = flatten(tree)
    columns = [leaves]
    for other in rest:
        more, found = flatten(other)
        if found != structure:
            raise ValueError(f"map_leaves: structures differ: {structure} and {found}.")
        columns.append(more)
    return unflatten(structure, [function(*row) for row in zip(*columns, strict=True)])


def spread_prefix(prefix: object, tree: object, name: str) -> list[Any]:
    """For each leaf of a nest, the integer or None that `prefix` has there or at a container above.

    >>> gt.pytree.spread_prefix((0, None), ([1, 2], 3), "in_axes")
    [0, 0, None]
    """
    if prefix is None or isinstance(prefix, Integral):
        axis = None if prefix is None else int(prefix)
        return [axis] * flatten(tree)[1].count
    above, below = _children(prefix), _children(tree)
    if above is None:
        raise TypeError(
            f"{name}: {prefix!r} is not an int, None or a nest of them. Name an axis, or None."
        )
    if below is None:
        raise ValueError(f"{name}: {prefix!r} is a nest where there is one leaf. Give one axis.")
    parts, children = list(above[2]), list(below[2])
    if isinstance(prefix, dict) and isinstance(tree, dict):
        if set(prefix) != set(tree):
            raise ValueError(
                f"{name}: keys {sorted(map(str, prefix))} for a dict with keys "
                f"{sorted(map(str, tree))}. Give an axis for each."
            )
        parts = [prefix[key] for key in tree]
    if len(parts) != len(children):
        raise ValueError(f"{name}: {len(parts)} axes for {len(children)} parts. Give one for each.")
    pairs = zip(parts, children, strict=True)
    return [axis for part, child in pairs for axis in spread_prefix(part, child, name)]


if not _TYPE_CHECKING:
    __getattr__, __dir__ = _namespace(globals())
