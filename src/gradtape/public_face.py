"""The public face of functions and classes: an argument that is not what it should be is named.

The face of a function calls it, and does more only in two cases. Arguments whose annotation says
that they are flags, integers or real numbers are checked before the call, because Python
takes almost anything for such a value. Other arguments are looked at when the call has failed in a
line that was not written to check them ("'int' object is not iterable"): if the annotation of one
does not allow it, the error that is raised names that argument. If all are allowed, the failure is
most likely a bug of the library: the error stays as it is, with a note that asks for a report.
Errors that the library raises on purpose, and errors in the user's own code, pass unchanged.

Functions that record an op have no face, because they are called often: they check their own
arguments with `argument_checks`.
"""

from __future__ import annotations

import functools
import inspect
import opcode
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from gradtape.annotated_kinds import KEPT_NUMBER, KINDS, Kind, kinds_of
from gradtape.errors import shown
from gradtape.version import __version__

# For each parameter the classes whose values need no look, and all kinds that it takes.
Checks = dict[str, tuple[frozenset[type], tuple[Kind, ...]]]
F = TypeVar("F", bound=Callable[..., Any])

# What the system, or NumPy on values that have no result, raises at no fault of a line.
_EXPECTED = (OSError, MemoryError, ImportError, Warning, FloatingPointError, np.linalg.LinAlgError)
REPORT = (
    "gradtape: this error is not one of gradtape's own. Unless an argument{} is to blame, it is a "
    f"bug in gradtape: please report it, with the program and the version, {__version__}."
)
# Kinds of values for which Python takes almost anything: they are checked before the call.
_CHECKED_BEFORE = frozenset(
    (
        "bool",
        "int",
        "SupportsIndex",
        "IntLike",
        "Count",
        "CountLike",
        "Size",
        "SizeLike",
        "Seed",
        "IntsLike",
        "Sizes",
        "PerAxis",
        "ShapeLike",
        "Axis",
        "float",
        "Finite",
        "NonNegative",
        "Positive",
        "Bound",
        "Probability",
        "Decay",
    )
)
# A constructor stores these, and whoever reads them later cannot say where they came from.
_CHECKED_AT_CONSTRUCTION = frozenset(("Callable", "str"))
# Functions that take these say in sentences of their own what they may be.
_OWN_SENTENCES = frozenset(("argnums", "chunk_size"))
_PLAIN: dict[str, type] = {
    "a flag": bool,
    "a whole number": int,
    "a whole number or a sequence of them": int,
    "a real number": int,
    "a text": str,
    "None": type(None),
}
_CALLED_WRONGLY = re.compile(r"([\w.<>]+)\(\) (takes|missing|got)\b")
_CALLED = ("__init__", "__call__")
# Methods that the library calls for every variable of a step; users define them and do not call.
_CALLED_BY_US = frozenset(("update",))
_RAISE = opcode.opmap["RAISE_VARARGS"]
_SUPPORT = frozenset(("gradtape", "numpy", "scipy", "llvmlite")) | sys.stdlib_module_names
_LIBRARY = __name__.partition(".")[0]


class Face:
    """Checks the arguments of one function by its annotations, and names the one to blame."""

    __slots__ = ("checks", "first", "function", "places", "title")

    def __init__(self, function: Callable[..., Any], title: str) -> None:
        self.function = function
        self.title = title
        # Read from the signature at the first call, since few functions of many are ever called.
        self.checks: Checks | None = None
        # The parameters by position, and the number of the first that is checked.
        self.places: tuple[str, ...] = ()
        self.first = 0

    def check(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raise if an argument for which Python takes almost anything is of another kind."""
        checks = self.checks
        if checks is None:
            checks = self._read_signature()
        for key, value in kwargs.items():
            if key in checks and type(value) not in checks[key][0]:
                self._check(args, key, value, checks[key][1])
        if len(args) > self.first:
            for key, value in zip(self.places, args, strict=False):
                if key in checks and type(value) not in checks[key][0]:
                    self._check(args, key, value, checks[key][1])

    def _read_signature(self) -> Checks:
        parameters = inspect.signature(self.function).parameters.values()
        fixed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        found: Checks = {}
        checked = _CHECKED_BEFORE
        constructs = self.function.__name__ == "__init__"
        if constructs:
            checked = checked | _CHECKED_AT_CONSTRUCTION
        for each in parameters:
            text = str(each.annotation).partition("[")[0].removesuffix("| None").strip()
            kinds = _kept_kinds(each.annotation) if constructs else kinds_of(each.annotation)
            if each.name in _OWN_SENTENCES or each.kind is each.VAR_POSITIONAL:
                continue
            if text in checked and kinds:
                plain = frozenset(_PLAIN[kind.words] for kind in kinds if kind.words in _PLAIN)
                found[each.name] = (plain, kinds)
        self.places = tuple(p.name for p in parameters if p.kind in fixed)
        checked_places = [at for at, name in enumerate(self.places) if name in found]
        self.first = min(checked_places, default=len(self.places))
        self.checks = found
        return found

    def _check(self, args: Any, parameter: str, value: object, kinds: tuple[Kind, ...]) -> None:
        for kind in kinds:
            if kind.allows(value):
                return
        raise self._refusal(args, parameter, value, kinds)

    def _titled(self, args: Any) -> str:
        return self.title or type(args[0]).__name__

    def _refusal(
        self, args: Any, parameter: str, value: object, kinds: tuple[Kind, ...]
    ) -> TypeError | ValueError:
        return refusal(f"{self._titled(args)}: {parameter}", value, kinds)

    def blame(self, error: Exception, args: Any, kwargs: Mapping[str, Any]) -> Exception | None:
        """The error that names the argument to blame; None if no argument is."""
        if not _is_accident(error):
            return None
        try:
            bound = inspect.signature(self.function).bind(*args, **kwargs)
        except (TypeError, ValueError):
            return None
        called = _CALLED_WRONGLY.match(str(error)) if isinstance(error, TypeError) else None
        names = inspect.unwrap(self.function).__globals__
        arguments = list(_named(bound))
        for parameter, value, annotation in arguments:
            if called is not None and getattr(value, "__qualname__", None) == called[1]:
                return TypeError(
                    f"{self._titled(args)}: {parameter}={shown(value)} is called with other "
                    f"arguments: {error}. Pass a function that takes them."
                )
            kinds = kinds_of(annotation, names)
            if kinds and not any(kind.allows(value) for kind in kinds):
                return self._refusal(args, parameter, value, kinds)
        if called is None:  # Python's words name the function and what it takes
            listed = [f"{name}={shown(value)}" for name, value, _ in arguments if name != "self"]
            ask_for_report(error, f" of {self._titled(args)} ({', '.join(listed)})")
        return None


def ask_for_report(error: Exception, where: str = "") -> None:
    """Add a note to an error that no line of the library raises on purpose."""
    noted = any(note.startswith(REPORT[:40]) for note in getattr(error, "__notes__", ()))
    if not noted and _is_accident(error):
        error.add_note(REPORT.format(where))


def refusal(where: str, value: object, kinds: tuple[Kind, ...]) -> TypeError | ValueError:
    """The error for a value of none of these kinds; its class says whether the type was right."""
    words = " or ".join(dict.fromkeys(kind.words for kind in kinds))
    error = ValueError if any(kind.takes(value) for kind in kinds) else TypeError
    return error(f"{where}={shown(value)} is not {words}. Pass {kinds[0].remedy}.")


def _kept_kinds(annotation: object) -> tuple[Kind, ...]:
    """The kinds that a constructor takes. A float may not be NaN: it would show only in results."""
    return tuple(KEPT_NUMBER if k is KINDS["float"] else k for k in kinds_of(annotation))


def check_arguments(title: str, signature: inspect.Signature, given: Mapping[str, Any]) -> None:
    """Raise if an argument of a constructor is not of the kind that its signature says.

    This is for signatures that are made from tables; others are read by the face.

    >>> import inspect
    >>> from gradtape.public_face import check_arguments
    >>> def wait(patience: "Count"): ...
    >>> try:
    ...     check_arguments("wait", inspect.signature(wait), {"patience": -3})
    ... except ValueError as error:
    ...     print(error)
    wait: patience=-3 is not a whole number of at least 0. Pass one.
    """
    for name, value in given.items():
        kinds = _kept_kinds(signature.parameters[name].annotation)
        if kinds and not any(kind.allows(value) for kind in kinds):
            raise refusal(f"{title}: {name}", value, kinds)


def faced(function: F, name: str | None = None) -> F:
    """The function with its public face.

    >>> from gradtape.public_face import faced
    >>> def half(n: "int"):
    ...     return n // 2
    >>> try:
    ...     faced(half)(2.5)
    ... except TypeError as error:
    ...     print(error)
    half: n=2.5 is not a whole number. Pass one.
    """
    face = Face(function, function.__name__ if name is None else name)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if face.checks is None or face.checks:
            face.check(args, kwargs)
        try:
            return function(*args, **kwargs)
        except Exception as error:
            refused = face.blame(error, args, kwargs)
            if refused is None:
                raise
            raise refused from error

    call.face = face  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def face_all(namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Give the functions that a namespace exports, and constructors of its classes, their faces.

    A function is known under the namespace afterwards: pickle looks for it there.
    """
    for name in names:
        thing: Any = namespace.get(name)
        if isinstance(thing, type):
            if thing.__module__.startswith(_LIBRARY):
                face_class(thing)
        elif _lacks_face(thing):
            namespace[name] = faced(thing)
            namespace[name].__module__ = namespace["__name__"]


def face_package(package: str) -> None:
    """The same for all that the loaded modules of a package export, wherever they import it."""
    modules = [
        vars(module)
        for name, module in list(sys.modules.items())
        if name == package or name.startswith(f"{package}.")
    ]
    faces: dict[Any, Any] = {}
    for names in modules:
        for thing in [names[name] for name in names.get("__all__", ())]:
            if isinstance(thing, type) and thing.__module__.startswith(package):
                # Constructors are often inherited from a class that is not exported.
                for base in thing.__mro__:
                    if base.__module__.startswith(package):
                        face_class(base)
            elif _lacks_face(thing) and thing.__module__.startswith(package):
                faces[thing] = faces.get(thing) or faced(thing)
    for names in modules:
        # Tables of functions by name are among the globals.
        for table in (names, *(each for each in list(names.values()) if type(each) is dict)):
            for name, thing in list(table.items()):
                if isinstance(thing, types.FunctionType) and thing in faces:
                    table[name] = faces[thing]


def _lacks_face(thing: object) -> bool:
    """Whether something is a function without a face, and does not record an op at once."""
    return isinstance(thing, types.FunctionType) and not (
        hasattr(thing, "face") or hasattr(thing, "op")
    )


def _takes_arguments(method: types.FunctionType) -> bool:
    """Whether a method has parameters besides `self`: an error of another one blames nobody."""
    code = method.__code__
    return code.co_argcount > 1 or code.co_kwonlyargcount > 0 or bool(code.co_flags & 0x0C)


def face_class(cls: type, methods: Iterable[str] | None = None) -> None:
    """Give methods that a class defines itself, by default all public ones, their faces."""
    for name, method in list(vars(cls).items()):
        if name in _CALLED_BY_US:
            continue
        chosen = name in methods if methods else name in _CALLED or not name.startswith("_")
        # The name of a subclass is only known when it is called.
        title = "" if name in _CALLED else f"{cls.__name__}.{name}"
        if chosen and _lacks_face(method) and _takes_arguments(method):
            setattr(cls, name, faced(method, title))
        elif chosen and isinstance(method, (staticmethod, classmethod)):
            function = method.__func__
            if _lacks_face(function):
                setattr(cls, name, type(method)(faced(function, title)))


def _named(bound: inspect.BoundArguments) -> Iterator[tuple[str, Any, object]]:
    """The arguments by name, each with its annotation; those in `*args` and `**kwargs` too."""
    for name, value in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            for index, each in enumerate(value):
                yield f"{name}[{index}]", each, parameter.annotation
        elif parameter.kind is parameter.VAR_KEYWORD:
            for key, each in value.items():
                yield key, each, parameter.annotation
        else:
            yield name, value, parameter.annotation


def _is_accident(error: Exception) -> bool:
    """Whether an error comes from a line of the library, or of one it uses, that checks nothing."""
    step = error.__traceback__
    # The first step is the face. If it is the last, Python refused the call itself.
    if step is None or step.tb_next is None:
        return False
    if isinstance(error, _EXPECTED) or (isinstance(error, AssertionError) and str(error)):
        return False
    while step.tb_next is not None:
        step = step.tb_next
        module = str(step.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if module not in _SUPPORT:
            return False
    if module != _LIBRARY:
        return True
    code = step.tb_frame.f_code.co_code
    raised = code[step.tb_lasti] == _RAISE and code[step.tb_lasti + 1] > 0
    return not raised or isinstance(error, AssertionError)
