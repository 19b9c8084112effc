"""Functions and modules that the walk meets: code, defaults, closures, names read of modules."""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gradtape.functions.outside.code_reads import Chain, nested_code, reads_of
from gradtape.functions.outside.comparisons import PLAIN, SINGLE
from gradtape.functions.outside.trusted_code import (
    is_library_class,
    is_own_scope,
    is_pure_builtin,
    is_trusted_function,
    is_trusted_module,
    what_it_may_do,
)
from gradtape.graph.op import Op

if TYPE_CHECKING:
    from gradtape.functions.outside.walk import Walk

_MISSING = object()
_FUNCTION = types.FunctionType
# Packages whose objects hold no function of the user but those that a function's own objects hold.
_MACHINERY = tuple(
    f"gradtape.{package}."
    for package in (
        "graph", "recording", "codegen", "runtime", "evaluate", "tensor",
        "functions.capture", "functions.replay", "functions.native", "functions.arguments",
    )
)  # fmt: skip
# Functions of the library that were searched in vain.
_HOLD_NOTHING: weakref.WeakSet[types.FunctionType] = weakref.WeakSet()


def visit_module(
    walk: Walk, value: Any, expression: str, label: str, chains: frozenset[Chain] | None
) -> None:
    """A module, and what is read of it by name."""
    comparisons = walk.comparisons
    now = comparisons.local(expression)
    comparisons.check(f"{now} is not {comparisons.thing(value)}", now)
    names: Iterable[str] = walk.names
    if chains is not None and () not in chains:
        names = {chain[0] for chain in chains}
    elif walk.any_attribute and (id(value), "") not in walk.scopes:
        walk.scopes[id(value), ""] = None
        names = [*walk.names, *_names_of(walk, value)]
    _check_absent(walk, value, names)
    held = ""
    for name in sorted(names):
        if name in vars(value) and (id(value), name) not in walk.scopes:
            walk.scopes[id(value), name] = None
            held = held or comparisons.thing(vars(value))
            rest = None
            if chains is not None:
                rest = frozenset(chain[1:] for chain in chains if chain and chain[0] == name)
            walk.later(vars(value)[name], f"{held}[{name!r}]", f"{label}.{name}", rest or None)


def _names_of(walk: Walk, module: Any) -> Iterable[str]:
    """The names of a module of which any may be read, as far as their values can change."""
    held, comparisons = vars(module), walk.comparisons
    place = comparisons.thing(held)
    comparisons.check(f"len({place}) != {len(held)}")
    if not is_trusted_module(module.__name__):
        return list(held)
    # What a trusted module holds may be replaced, and does not change.
    comparisons.check_values(f"[*{place}.values()]", list(held.values()))
    functions = ((name, each) for name, each in held.items() if isinstance(each, _FUNCTION))
    return [name for name, each in functions if not is_trusted_function(each)]


def _check_absent(walk: Walk, value: Any, names: Iterable[str]) -> None:
    """Names that a module does not have, where the user's code or its own can tell that."""
    held = vars(value)
    fallback = held.get("__getattr__")
    if is_trusted_module(value.__name__) or not (walk.handles_errors or fallback is not None):
        return
    place = walk.comparisons.thing(held)
    absent = frozenset(names) - held.keys()
    if absent:
        walk.comparisons.check(f"not {place}.keys().isdisjoint({walk.comparisons.thing(absent)})")
    if fallback is not None:
        walk.later(fallback, f"{place}['__getattr__']", f"{value.__name__}.__getattr__")


def visit_builtin(walk: Walk, value: Any, expression: str, label: str) -> None:
    """A function of C."""
    comparisons = walk.comparisons
    owner = getattr(value, "__self__", None)
    if owner is None or isinstance(owner, (types.ModuleType, type)):
        comparisons.check(f"{expression} is not {comparisons.thing(value)}", expression)
    else:
        now = walk.meet(value, expression)
        comparisons.check(f"type({now}) is not {comparisons.thing(type(value))}", now)
        comparisons.check(f"{now}.__name__ != {value.__name__!r}", now)
        walk.later(owner, f"{now}.__self__", f"{label}.__self__")
    if not is_pure_builtin(value) and not walk.is_called_only(label.rpartition(".")[2]):
        walk.unknown.append(f"it reads {label}, a function of C, {what_it_may_do(label)}")


def visit_function(walk: Walk, value: Any, expression: str, label: str, told: bool) -> None:
    """A Python function: its code, and all that its code may read."""
    comparisons = walk.comparisons
    now = walk.meet(value, expression)
    comparisons.check(f"{now} is not {comparisons.thing(value)}", now, told)
    if is_trusted_function(value):
        if is_own_scope(value.__globals__):
            search_held(walk, value, label)
        else:
            _visit_parts(walk, value, now, label)
        return
    code = value.__code__
    if not walk.observed and code not in walk.executed:
        # Every function that is found counts as one that runs.
        walk.executed.update(named_code(value))
        walk.grew = True
    walk.found.add(code)
    if is_own_scope(value.__globals__):
        # A method of a layer or an optimiser may be replaced, and is not changed itself.
        if code in walk.executed:
            search_held(walk, value, label)
        return
    comparisons.check(f"{now}.__code__ is not {comparisons.thing(code)}", now)
    held = value.__dict__
    for name in sorted(held if walk.any_attribute else walk.names & held.keys()):
        walk.later(held[name], f"{now}.__dict__[{name!r}]", f"{label}.{name}")
    if walk.any_attribute:
        comparisons.check(f"len({now}.__dict__) != {len(held)}")
    elif walk.handles_errors:
        absent = comparisons.thing(walk.names - held.keys())
        comparisons.check(f"not {now}.__dict__.keys().isdisjoint({absent})")
    if code in walk.executed:
        _visit_parts(walk, value, now, label)


def named_code(function: Any) -> dict[types.CodeType, dict[str, Any]]:
    """The code of a user's function and of others that it can call by global names."""
    found: dict[types.CodeType, dict[str, Any]] = {}
    pending = [function]
    while pending:
        each = pending.pop()
        if (
            isinstance(each, types.FunctionType)
            and each.__code__ not in found
            and not is_trusted_function(each)
        ):
            codes, scope = (each.__code__, *nested_code(each.__code__)), each.__globals__
            found.update(dict.fromkeys(codes, scope))
            if not is_own_scope(scope):
                pending += [scope.get(name) for code in codes for name in reads_of(code).globals]
    return found


def _visit_parts(walk: Walk, value: Any, now: str, label: str) -> None:
    """Defaults and closures of a function that runs."""
    comparisons = walk.comparisons
    seen = comparisons.thing(value.__defaults__)
    comparisons.check(f"{now}.__defaults__ is not {seen}", f"{now}.__defaults__")
    for number, default in enumerate(value.__defaults__ or ()):
        if not isinstance(default, (*PLAIN, *SINGLE)):
            walk.later(default, f"{seen}[{number}]", f"{label}, default {number}")
    if value.__kwdefaults__:
        walk.later(value.__kwdefaults__, f"{now}.__kwdefaults__", f"{label}, defaults")
    else:
        comparisons.check(f"{now}.__kwdefaults__", f"{now}.__kwdefaults__")
    for name, content, cell in _cells(value):
        if id(cell) in walk.met:
            continue
        walk.met[id(cell)] = ("", cell)
        if content is _MISSING:
            comparisons.check(f"{comparisons.thing(_is_filled)}({comparisons.thing(cell)})")
        else:
            walk.later(content, f"{comparisons.thing(cell)}.cell_contents", name)


def _cells(function: Any) -> Iterable[tuple[str, Any, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents, cell
        except ValueError:
            yield name, _MISSING, cell


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not _MISSING
    except ValueError:
        return False


def search_held(walk: Walk, holder: Any, label: str) -> None:
    """Find the user's functions and objects that something of the library holds.

    Code of the library tells the capture what it reads, so its own objects are not compared.
    """
    for part in _held(holder):
        # The holder was compared, and does not exchange what it holds.
        walk.enter_root(label, part, told=True)


def _held(holder: Any) -> list[Any]:
    if isinstance(holder, types.FunctionType) and holder in _HOLD_NOTHING:
        return []
    found = []
    stack, seen = [holder], {id(holder): holder}
    while stack:
        each = stack.pop()
        for held in _parts(each):
            part = held.__wrapped__ if isinstance(held, functools._lru_cache_wrapper) else held
            if id(part) in seen:
                continue
            seen[id(part)] = part
            if isinstance(part, (tuple, list, dict, set, frozenset)) or _is_of_library(part):
                stack.append(part)
            elif isinstance(part, (types.FunctionType, types.MethodType, functools.partial)) or (
                not isinstance(part, (type, types.ModuleType)) and _is_users(part)
            ):
                found.append(part)
    if (
        not found
        and isinstance(holder, types.FunctionType)
        and "<locals>" not in holder.__qualname__
    ):
        # Functions of the library's modules hold what they were made with.
        _HOLD_NOTHING.add(holder)
    return found


def _is_of_library(part: Any) -> bool:
    if isinstance(part, types.FunctionType):
        return is_trusted_function(part)
    if isinstance(part, Op):
        return True  # declared by the library, or by the user with functions of their own
    return is_library_class(type(part)) and not type(part).__module__.startswith(_MACHINERY)


def _is_users(part: Any) -> bool:
    return callable(part) and not is_trusted_module(type(part).__module__)


def _parts(thing: Any) -> Iterable[Any]:
    wrapped = getattr(thing, "python_function", None)
    if wrapped is not None:
        yield wrapped  # captures of another gt.function are its own
    elif isinstance(thing, types.FunctionType):
        yield from (content for _, content, _ in _cells(thing))
        yield from thing.__defaults__ or ()
    elif isinstance(thing, dict):
        yield from thing.values()
    elif isinstance(thing, (tuple, list, set, frozenset)):
        yield from thing
    else:
        yield from getattr(thing, "__dict__", {}).values()
        for kind in type(thing).__mro__:
            for name, entry in kind.__dict__.items():
                if isinstance(entry, types.MemberDescriptorType):
                    yield getattr(thing, name, None)
