"""Functions that are sent to workers: pickled, with what they hold checked and named.

An object that cannot be pickled is named in the error, and so is every Variable that a function
reads from outside: a worker would have a copy, whose changes are lost.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import pickle
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gradtape import Variable
from gradtape.config import KEPT_FUNCTIONS
from gradtape.libraries import shown

# The depth to which functions inside functions, and containers, are searched.
DEPTH = 8


@dataclass(frozen=True)
class Sent:
    """A pickled object, and the digest by which workers find it."""

    digest: str
    data: bytes


def pickler() -> Any:
    """cloudpickle, of its own or in Ray or joblib; pickle where none of them is installed."""
    for name in ("cloudpickle", "ray.cloudpickle", "joblib.externals.cloudpickle"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return pickle


def send(name: str, thing: Any) -> Sent:
    """An object for workers. If it cannot be pickled, the error names the variable to blame."""
    try:
        data = pickler().dumps(thing, protocol=5)
    except Exception as error:
        blamed, value = _to_blame(thing)
        where = "it" if blamed is None else f"the variable {blamed!r} in it, {shown(value)},"
        raise TypeError(
            f"{name}: {_title(thing)} cannot be sent to workers: {where} cannot be pickled "
            f"({str(error).splitlines()[0] if str(error) else type(error).__name__}). Make it "
            "inside the function, or pass data that it can be made of."
        ) from error
    return Sent(hashlib.sha256(data).hexdigest(), data)


def unpacked(sent: Sent) -> Any:
    """A new copy of the object, which is not kept."""
    return pickle.loads(sent.data)


# By digest: the pickled bytes are not kept.
_kept: OrderedDict[str, Any] = OrderedDict()


def receive(sent: Sent) -> Any:
    """The object, the same one for every task of a process: it keeps its captured programs."""
    if sent.digest not in _kept:
        _kept[sent.digest] = unpacked(sent)
        if len(_kept) > KEPT_FUNCTIONS:
            _kept.popitem(last=False)
    _kept.move_to_end(sent.digest)
    return _kept[sent.digest]


def _title(f: Any) -> str:
    return str(getattr(f, "__qualname__", None) or type(f).__name__)


def refuse_variables(name: str, f: Any, allowed: Any = (), remedy: str = "") -> None:
    """Raise if a function reads Variables from outside that are not among those allowed."""
    known = {id(variable) for variable in allowed}
    found = [path for path, variable in variables_in(f) if id(variable) not in known]
    if found:
        names = ", ".join(dict.fromkeys(found))
        raise ValueError(
            f"{name}: {_title(f)} reads Variables from outside: {names}. Every worker would have a "
            f"copy of its own, whose changes are lost. {remedy}"
        )


def variables_in(f: Any) -> list[tuple[str, Variable]]:
    """The Variables that a function can reach by its closure and globals, with their paths."""
    found: list[tuple[str, Variable]] = []
    seen: set[int] = set()

    def visit(path: str, value: Any, depth: int) -> None:
        if isinstance(value, Variable):
            found.append((path, value))
            return
        if depth > DEPTH or id(value) in seen:
            return
        seen.add(id(value))
        for label, part in parts_of(value):
            visit(f"{path}.{label}" if path else label, part, depth + 1)

    visit("", f, 0)
    return found


def parts_of(thing: Any) -> Iterator[tuple[str, Any]]:
    """Named parts of a function, container or object that are pickled with it."""
    if isinstance(thing, types.MethodType):
        yield "self", thing.__self__
        thing = thing.__func__
    if isinstance(thing, functools.partial):
        yield "func", thing.func
        yield from parts_of(thing.args)
        yield from thing.keywords.items()
    elif isinstance(thing, types.FunctionType):
        yield from _parts_of_function(thing)
    elif isinstance(thing, dict):
        yield from ((str(key), value) for key, value in thing.items())
    elif isinstance(thing, (list, tuple, set, frozenset)):
        yield from ((str(number), value) for number, value in enumerate(thing))
    elif not isinstance(thing, (type, types.ModuleType)):
        inside = getattr(thing, "python_function", None)
        if isinstance(inside, types.FunctionType):
            # A gt.function: what it wraps travels, and no captures.
            yield inside.__name__, inside
        elif not _is_of_a_library(type(thing).__module__) or hasattr(thing, "named_variables"):
            yield from list(getattr(thing, "__dict__", {}).items())


def _parts_of_function(f: types.FunctionType) -> Iterator[tuple[str, Any]]:
    code = f.__code__
    for label, cell in zip(code.co_freevars, f.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # it is not assigned yet
            yield label, cell.cell_contents
    names = code.co_varnames[: code.co_argcount]
    defaults = f.__defaults__ or ()
    yield from zip(names[len(names) - len(defaults) :], defaults, strict=True)
    yield from (f.__kwdefaults__ or {}).items()
    if not _is_of_a_library(f.__module__):
        for label in _names_in(code):
            if label in f.__globals__:
                yield label, f.__globals__[label]


def _names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)


def _is_of_a_library(module: str | None) -> bool:
    """Whether code is installed: it is not pickled, and holds no variables of the user's."""
    root = (module or "").partition(".")[0]
    if root in sys.stdlib_module_names or root == "gradtape":
        return root != "__main__"
    path = getattr(sys.modules.get(root), "__file__", None) or ""
    return "site-packages" in path


def _to_blame(thing: Any) -> tuple[str | None, Any]:
    """The innermost part that cannot be pickled, with its path."""
    path: list[str] = []
    value = thing
    for _ in range(DEPTH):
        inner = next(((label, part) for label, part in parts_of(value) if _fails(part)), None)
        if inner is None:
            break
        path.append(inner[0])
        value = inner[1]
    return (".".join(path) if path else None), value


def _fails(part: Any) -> bool:
    if isinstance(part, (types.ModuleType, type)):
        return False
    dumps: Callable[..., bytes] = pickler().dumps
    try:
        dumps(part)
    except Exception:
        return True
    return False
