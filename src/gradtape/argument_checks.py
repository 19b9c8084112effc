"""Argument checks: a bad argument of a public function is named in the error.

Public functions and constructors are wrapped once, where their module ends, by `check_exports`. The
wrapper calls the function, and does more only in two cases. Arguments whose annotation says that
they are flags, integers or real numbers are checked before the call, because Python takes almost
anything for such a value. Other arguments are checked when the call has failed in a line that does
not raise an error on purpose ("'int' object is not iterable"): if the annotation of an argument
does not allow its value, the error that is raised names that argument. If all are allowed, the
failure is most likely a bug of the library: the error stays as it is, with a note that requests a
report. Errors that the library raises on purpose, and errors in the user's own code, pass
unchanged.

Functions that record an op are not wrapped, because they are called often. They check single values
with `as_count`, `as_integer`, `as_real` and `as_flag`.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import operator
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from gradtape.annotated_kinds import KEPT_NUMBER, KINDS, Kind, kinds_of
from gradtape.errors import DtypeError, ShapeError, is_of_this_line, shown
from gradtape.suggestions import refused_call, tables
from gradtape.version import __version__


def as_count(where: str, value: object, least: int = 0) -> int:
    """A whole number of at least `least`.

    >>> from gradtape.argument_checks import as_count
    >>> as_count("Dense: units", 3, least=1)
    3
    """
    found = as_integer(where, value, f"a whole number of at least {least}")
    if found < least:
        raise ValueError(f"{where}={found} is not a whole number of at least {least}. Pass one.")
    return found


def as_integer(where: str, value: object, words: str = "an integer") -> int:
    """An integer; True and False are not.

    >>> from gradtape.argument_checks import as_integer
    >>> as_integer("eye: k", np.int8(-1))
    -1
    """
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{where}={shown(value)} is not {words}. Pass one.") from None


def as_real(where: str, value: object) -> float:
    """A real number; text is none, and an array has to hold one number.

    >>> from gradtape.argument_checks import as_real
    >>> as_real("var: correction", 1)
    1.0
    """
    try:
        if isinstance(value, (str, bytes, bytearray)):
            raise TypeError
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError) as error:
        if not is_of_this_line(error) and not isinstance(error, (ShapeError, DtypeError)):
            raise
        raise TypeError(f"{where}={shown(value)} is not a real number. Pass one.") from None


def as_flag(where: str, value: object) -> bool:
    """True or False; 1 and 0 count as such, and nothing else does.

    >>> from gradtape.argument_checks import as_flag
    >>> as_flag("sum: keepdims", np.True_)
    True
    """
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise TypeError(f"{where}={shown(value)} is not a flag. Pass True or False.")


def is_choice(value: object, choices: Iterable[object]) -> bool:
    """Whether a value is one of some texts or None; an array, or anything else, is not.

    >>> from gradtape.argument_checks import is_choice
    >>> is_choice("cpu", (None, "cpu")), is_choice(np.zeros(2), (None, "cpu"))
    (True, False)
    """
    return (value is None or isinstance(value, str)) and value in choices


def check_function(where: str, f: object) -> Callable[..., Any]:
    """Raise unless something can be called.

    >>> from gradtape.argument_checks import check_function
    >>> check_function("grad", abs)
    <built-in function abs>
    """
    if not callable(f):
        raise TypeError(f"{where}: {shown(f)} is not callable. Pass a function.")
    return f


def check_returned(where: str, f: object, result: object) -> None:
    """Raise if a function returned nothing.

    >>> from gradtape.argument_checks import check_returned
    >>> check_returned("grad", abs, 1.0)
    """
    if result is None:
        name = getattr(f, "__name__", "the function").replace("<lambda>", "the function")
        raise TypeError(f"{where}: {name} returned None; is `return` missing?")


# For each parameter the classes whose values need no check, and all kinds that it takes.
Rules = dict[str, tuple[frozenset[type], tuple[Kind, ...]]]
F = TypeVar("F", bound=Callable[..., Any])

# What the system, or NumPy on values that have no result, raises at no fault of a line.
_EXPECTED = (OSError, MemoryError, ImportError, Warning, FloatingPointError, np.linalg.LinAlgError)
REPORT = (
    "gradtape: this error is not one of gradtape's own. Unless an argument{} is to blame, it is a "
    f"bug in gradtape: please report it, with the program and the version, {__version__}."
)
# Kinds of values for which Python takes almost anything: they are checked before the call.
_CHECKED_BEFORE = frozenset(
    [
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
    ]
)
# A constructor stores these: a later error could not say where they came from.
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
_SUPPORT = frozenset(("gradtape", "numpy", "scipy", "llvmlite")) | sys.stdlib_module_names
_LIBRARY = __name__.partition(".")[0]


class ArgumentChecks:
    """Checks the arguments of one function by its annotations, and names the one to blame."""

    __slots__ = ("first", "function", "places", "rules", "title")

    def __init__(self, function: Callable[..., Any], title: str) -> None:
        self.function = function
        self.title = title
        # Read from the signature at the first call, since few functions of many are ever called.
        self.rules: Rules | None = None
        # The parameters by position, and the number of the first that is checked.
        self.places: tuple[str, ...] = ()
        self.first = 0

    def check(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raise if an argument for which Python takes almost anything is of another kind."""
        rules = self.rules
        if rules is None:
            rules = self._read_signature()
        for key, value in kwargs.items():
            if key in rules and type(value) not in rules[key][0]:
                self._check(args, key, value, rules[key][1])
        if len(args) > self.first:
            for key, value in zip(self.places, args, strict=False):
                if key in rules and type(value) not in rules[key][0]:
                    self._check(args, key, value, rules[key][1])

    def _read_signature(self) -> Rules:
        parameters = inspect.signature(self.function).parameters.values()
        fixed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        found: Rules = {}
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
        self.rules = found
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
        if isinstance(error, TypeError) and _is_of_the_call(error):
            return refused_binding(
                self._titled(args), written_signature(self.function), args, kwargs
            )
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
    remedy = tables()["values"].get(where.rpartition(" ")[2], f"Pass {kinds[0].remedy}")
    return error(f"{where}={shown(value)} is not {words}. {remedy}.")


def _kept_kinds(annotation: object) -> tuple[Kind, ...]:
    """The kinds that a constructor takes. A float may not be NaN: it would show only in results."""
    return tuple(KEPT_NUMBER if k is KINDS["float"] else k for k in kinds_of(annotation))


def check_arguments(title: str, signature: inspect.Signature, given: Mapping[str, Any]) -> None:
    """Raise if an argument of a constructor is not of the kind that its signature says.

    This is for signatures that are made from tables. Others are read at the first call.

    >>> import inspect
    >>> from gradtape.argument_checks import check_arguments
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


def checked(function: F, name: str | None = None) -> F:
    """The function with checks of its arguments.

    >>> from gradtape.argument_checks import checked
    >>> def half(n: "int"):
    ...     return n // 2
    >>> try:
    ...     checked(half)(2.5)
    ... except TypeError as error:
    ...     print(error)
    half: n=2.5 is not a whole number. Pass one.
    """
    checks = ArgumentChecks(function, function.__name__ if name is None else name)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if checks.rules is None or checks.rules:
            checks.check(args, kwargs)
        try:
            return function(*args, **kwargs)
        except Exception as error:
            refused = checks.blame(error, args, kwargs)
            if refused is None:
                raise
            raise refused from (None if _is_of_the_call(error) else error)

    call.argument_checks = checks  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def check_exports(namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Wrap the functions that a module exports, and the methods of its classes.

    A function gets the name of the module, under which pickle finds it. Methods that an
    exported class inherits from a class of its own module are wrapped, too.

    >>> def half(n: "int"):
    ...     return n // 2
    >>> module = {"__name__": "mine", "half": half}
    >>> gt.libraries.check_exports(module, ["half"])
    >>> try:
    ...     module["half"](2.5)
    ... except TypeError as error:
    ...     print(error)
    half: n=2.5 is not a whole number. Pass one.
    """
    own = namespace["__name__"]
    for name in names:
        thing: Any = namespace.get(name)
        if isinstance(thing, type):
            for base in thing.__mro__:
                home = base.__module__
                if home == own or (base is thing and home.startswith(_LIBRARY)):
                    check_methods(base)
        elif _is_unchecked(thing):
            namespace[name] = checked(thing)
            namespace[name].__module__ = own


def _is_unchecked(thing: object) -> bool:
    """Whether something is a function without checks, and does not record an op at once."""
    return isinstance(thing, types.FunctionType) and not (
        hasattr(thing, "argument_checks") or hasattr(thing, "op")
    )


def _takes_arguments(method: types.FunctionType) -> bool:
    """Whether a method has parameters besides `self` that an error could name."""
    code = method.__code__
    return code.co_argcount > 1 or code.co_kwonlyargcount > 0 or bool(code.co_flags & 0x0C)


def check_methods(cls: type, methods: Iterable[str] | None = None) -> None:
    """Wrap methods that a class defines itself, by default all public ones."""
    for name, method in list(vars(cls).items()):
        if name in _CALLED_BY_US:
            continue
        chosen = name in methods if methods else name in _CALLED or not name.startswith("_")
        # The name of a subclass is only known when it is called.
        title = "" if name in _CALLED else f"{cls.__name__}.{name}"
        if chosen and _is_unchecked(method) and _takes_arguments(method):
            setattr(cls, name, checked(method, title))
        elif chosen and isinstance(method, (staticmethod, classmethod)):
            function = method.__func__
            if _is_unchecked(function):
                setattr(cls, name, type(method)(checked(function, title)))


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


def _is_of_the_call(error: Exception) -> bool:
    """Whether Python refused the call itself: the first step is the wrapper."""
    step = error.__traceback__
    return step is not None and step.tb_next is None


def written_signature(function: Callable[..., Any]) -> inspect.Signature:
    """The signature by which Python calls a function, which documents may show differently."""
    inner: Any = inspect.unwrap(function)
    shown_as = vars(inner).pop("__signature__", None)
    try:
        return inspect.signature(inner)
    finally:
        if shown_as is not None:
            inner.__signature__ = shown_as


def refused_binding(
    title: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> TypeError | None:
    """The error for arguments that a signature does not have, or that are missing.

    >>> import inspect
    >>> def norm(x, axis=None): ...
    >>> print(gt.libraries.refused_binding("norm", inspect.signature(norm), (1.0,), {"dim": 0}))
    norm: there is no argument 'dim'; here it is called axis.
    """
    parameters = signature.parameters.values()
    kinds = {each.kind: each.annotation for each in parameters}
    fixed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = [each.name for each in parameters if each.kind in fixed]
    by_name = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    own = int("self" in places)
    unknown = [name for name in kwargs if name not in signature.parameters]
    if kinds.get(inspect.Parameter.VAR_KEYWORD, "Never") != "Never":
        unknown = [name for name in unknown if name in tables()["arguments"]]
    names = [*places[own:], *by_name]
    few = inspect.Parameter.VAR_POSITIONAL in kinds or len(args) <= len(places)
    if few and not unknown:
        return _missing_arguments(title, signature, names, places[: len(args)], kwargs)
    more = args[len(places) :]
    last = signature.parameters[places[-1]].annotation if places else "Size"
    if more and not unknown and last != "Size" and all(type(each) is int for each in more):
        together = ", ".join(map(repr, args[len(places) - 1 :]))
        return TypeError(
            f"{title}: {len(args) - own} arguments by position, and it takes at most "
            f"{len(places) - own}. Pass {places[-1]} as a tuple, ({together})."
        )
    return refused_call(title, names, len(places) - own, len(args) - own, unknown)


def _missing_arguments(
    title: str,
    signature: inspect.Signature,
    names: list[str],
    placed: list[str],
    kwargs: Mapping[str, Any],
) -> TypeError | None:
    """The error for arguments that are missing, or passed twice."""
    twice = [name for name in placed if name in kwargs]
    required = [name for name in names if signature.parameters[name].default is inspect._empty]
    missing = [name for name in required if name not in placed and name not in kwargs]
    listed = f"It takes {', '.join(names)}."
    if twice:
        return TypeError(f"{title}: {twice[0]} is passed by position and by name. {listed}")
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        return TypeError(f"{title}: {' and '.join(missing)} {verb} missing. {listed}")
    return None


def _is_accident(error: Exception) -> bool:
    """Whether an error comes from a line of the library, or of one it uses, that checks nothing."""
    step = error.__traceback__
    if step is None or _is_of_the_call(error):
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
    line = linecache.getline(step.tb_frame.f_code.co_filename, step.tb_lineno).lstrip()
    # Without its source text, the library is trusted to raise what it means.
    return bool(line) and not line.startswith("raise ")
