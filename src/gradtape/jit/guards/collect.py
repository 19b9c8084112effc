"""Collect: find what a function names outside itself, and make guards of it.

The search starts from the function and its static arguments. It follows functions of the user by
the globals, closure cells, defaults and attributes that their code names; other installed packages
are trusted. Names do not tell which object an attribute is read from, so a name is looked up on
every object that was found. The search is bounded: a guard that is missing is no error, because
replays are checked by running the function again.
"""

from __future__ import annotations

import functools
import operator
import types
import weakref
from collections.abc import Callable, Collection, Iterable
from types import CodeType
from typing import Any

import numpy as np

from gradtape.ir.op import Op
from gradtape.jit.guards.guards import ArrayContent, dictionary_of
from gradtape.jit.guards.never_replayed import module_of
from gradtape.jit.guards.search import GuardSearch, Outside
from gradtape.jit.guards.visit_functions import visit_cell, visit_function, visit_module
from gradtape.jit.guards.visit_objects import (
    WRAPPERS,
    add_attributes,
    is_of_library,
    visit_attributes,
    visit_class,
    visit_contents,
    visit_held,
    visit_makers,
)
from gradtape.tensor.generator import Generator
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable


def collect(
    function: Callable[..., Any],
    arguments: Iterable[tuple[str, Any]],
    callbacks: Collection[CodeType] = (),
) -> Outside:
    """What a function reads by name besides its inputs; `arguments` are the static ones.

    The code of `callbacks` is not followed: replays run it.
    """
    search = GuardSearch(function, callbacks)
    search.enter(function, getattr(function, "__qualname__", "the function"))
    for label, argument in arguments:
        search.enter(argument, label)
    search.run(_visit)
    return search.found


def _visit(search: GuardSearch, value: Any, label: str) -> None:
    search.never(value, label)
    if isinstance(value, types.FunctionType):
        visit_function(search, value, label)
    elif isinstance(value, types.ModuleType):
        visit_module(search, value, label)
    elif isinstance(value, type):
        visit_class(search, value)
        visit_makers(search, value)
    elif isinstance(value, (types.MethodType, types.MethodWrapperType)):
        search.enter(getattr(value, "__func__", None), label)
        search.enter(value.__self__, label)
    elif isinstance(value, types.BuiltinFunctionType):
        if not isinstance(value.__self__, (types.ModuleType, type)):
            search.enter(value.__self__, label)
    elif isinstance(value, (Tensor, Generator)):
        if isinstance(value, Tensor):
            search.found.tensors.append(weakref.ref(value))
    elif isinstance(value, np.ndarray):
        if value.dtype.kind != "O":
            search.guards.arrays[id(value)] = ArrayContent(value, label)
        else:
            search.enter(value.tolist(), label)
    elif isinstance(value, types.CellType):
        visit_cell(search, value, label)
    elif isinstance(value, weakref.ref):
        # The guards are dropped when the object is gone.
        target = value()
        search.guards.holders.hold(target)
        search.enter(target, label)
    elif isinstance(value, types.CodeType):
        pass
    else:
        _visit_instance(search, value, label)


def _visit_instance(search: GuardSearch, value: Any, label: str) -> None:
    """An object of another class: what it holds, and attributes by the names read."""
    kind = type(value)
    visit_contents(search, value, label)
    for wrapper, parts in WRAPPERS:
        if isinstance(value, wrapper) and is_of_library(value):
            for part in parts:
                search.enter(getattr(value, part), label)
        elif isinstance(value, wrapper):
            add_attributes(search, value, parts, label)
    if isinstance(value, functools._lru_cache_wrapper):
        search.enter(value.__wrapped__, label)
    module = module_of(kind)
    if module.startswith("gradtape.") and not search.is_users(module):
        visit_held(search, value, label)
    if isinstance(value, Variable):
        search.look_again(lambda names: _guard_trainable(search, value, names, label))
        held = dictionary_of(value)
        if held is not None:
            search.look_again(lambda names: search.read_dict(held, names, f"{label}."))
    elif not isinstance(value, Op):
        visit_attributes(search, value, label)
        visit_class(search, kind)


def _guard_trainable(search: GuardSearch, variable: Variable, names: set[str], label: str) -> None:
    """The capture follows what a variable holds; whether it is trained is an attribute."""
    if "trainable" in names:
        read = operator.attrgetter("trainable", "trainable")
        search.add(read, variable, [f"{label}.trainable"], announced=True)
