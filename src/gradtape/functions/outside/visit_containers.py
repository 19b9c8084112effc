"""Containers that the walk meets: all that they hold is compared, in its order."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.functions.outside.comparisons import LARGE, PLAIN, SINGLE, ArrayContent
from gradtape.functions.outside.trusted_code import is_trusted_function, tells_changes
from gradtape.tensor.variable import Variable

if TYPE_CHECKING:
    from gradtape.functions.outside.walk import Walk


def visit_array(walk: Walk, value: Any, expression: str, label: str) -> None:
    """An array of NumPy: its content, unless nobody can change it."""
    comparisons, now = walk.comparisons, walk.meet(value, expression)
    if value.dtype.kind not in "biufcUSmMV":
        walk.unknown.append(f"{label} is an array of Python objects")
    elif _may_change(value):
        comparisons.check(f"{comparisons.thing(ArrayContent(value).differs)}({now})", now)
        if value.nbytes >= LARGE:
            comparisons.large_arrays.append((label, value.nbytes))
    else:
        comparisons.check(f"{now} is not {comparisons.thing(value)}", now)


def _may_change(array: Any) -> bool:
    # Whoever holds a read-only array can make it writeable again, unless it shows immutable bytes.
    while isinstance(array, np.ndarray):
        array = array.base
    return not isinstance(array, bytes)


def visit_sequence(walk: Walk, value: Any, expression: str, label: str, told: bool) -> None:
    """A list, a tuple or a deque."""
    comparisons, now = walk.comparisons, walk.meet(value, expression)
    # A tuple is not another one unless somebody puts it there.
    told = told and _is_settled(value)
    comparisons.check(f"type({now}) is not {comparisons.thing(type(value))}", now, told)
    comparisons.check(f"len({now}) != {len(value)}", now, told)
    visit_items(walk, list(value), now, label, told)


def visit_items(walk: Walk, items: list[Any], now: str, label: str, told: bool = False) -> None:
    """What is in a sequence of known length."""
    if not items:
        return
    settled = all(map(_is_settled, items))
    if settled:
        walk.comparisons.check_values(now, items, told)
    for number, item in enumerate(items):
        if not (settled and _is_plain(item)):
            walk.later(item, f"{now}[{number}]", f"{label}[{number}]", None, settled)


def visit_mapping(walk: Walk, value: Any, expression: str, label: str) -> None:
    """A dict or one of its kin."""
    comparisons, now = walk.comparisons, walk.meet(value, expression)
    comparisons.check(f"type({now}) is not {comparisons.thing(type(value))}", now)
    visit_entries(walk, value, now, label)
    factory = getattr(value, "default_factory", None)
    if factory is not None:
        walk.later(factory, f"{now}.default_factory", f"{label}.default_factory")


def visit_entries(walk: Walk, value: Any, now: str, label: str) -> None:
    """Keys, in their order, and what is found under them."""
    comparisons = walk.comparisons
    keys, values = [*dict.keys(value)], [*dict.values(value)]
    comparisons.check(f"{comparisons.thing(dict.__len__)}({now}) != {len(keys)}", now)
    if not keys:
        return
    listed = comparisons.local(f"[*{comparisons.thing(dict.keys)}({now})]")
    visit_items(walk, keys, listed, f"keys of {label}: ")
    held = comparisons.local(f"[*{comparisons.thing(dict.values)}({now})]")
    visit_items(walk, values, held, f"values of {label}: ")


def visit_set(walk: Walk, value: Any, expression: str, label: str) -> None:
    """A set or a frozenset, with the order in which it gives its elements."""
    comparisons, now = walk.comparisons, walk.meet(value, expression)
    comparisons.check(f"type({now}) is not {comparisons.thing(type(value))}", now)
    comparisons.check(f"len({now}) != {len(value)}", now)
    visit_items(walk, [*value], comparisons.local(f"[*{now}]") if value else "", label)


def _is_plain(item: Any) -> bool:
    return type(item) in PLAIN or type(item) in SINGLE


def _is_settled(item: Any) -> bool:
    """Whether an object is the same as before if it is there: its changes are told or followed."""
    if type(item) is tuple:
        return all(map(_is_settled, item))
    if isinstance(item, types.FunctionType):
        return is_trusted_function(item)
    return _is_plain(item) or isinstance(item, Variable) or tells_changes(item)
