"""Checks of an op's declaration when it is made, with errors that name the op and the argument."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from gradtape.dtypes import as_dtype
from gradtape.graph import Spec, Undefined, spec

# The names of an op's params, or names with defaults.
Params: TypeAlias = Sequence[str] | Mapping[str, object]
# A rule or kernel that the user writes, with arguments as the table of `gt.extend.op` says.
Rule: TypeAlias = Callable[..., Any]
# The default of a param that has none.
REQUIRED = object()


def check_callables(name: str, rules: Mapping[str, object]) -> None:
    """Raise a TypeError for a rule that is given and is not a function."""
    for word, rule in rules.items():
        if rule is not None and not callable(rule):
            raise TypeError(f"extend: {name}: {word}= is {type(rule).__name__}. Give a function.")


def names_and_defaults(name: str, params: Params) -> tuple[tuple[str, ...], dict[str, object]]:
    """The names of params, and the default of each, which is REQUIRED where there is none."""
    names = tuple(params)
    for word in names:
        if not isinstance(word, str) or not word.isidentifier():
            raise ValueError(
                f"extend: {name}: {word!r} among params is not a name. Use letters, digits and _."
            )
    defaults = params if isinstance(params, Mapping) else dict.fromkeys(names, REQUIRED)
    return names, dict(defaults)


def arity_of(name: str, arity: int | None, partials: Sequence[Rule] | None) -> int:
    """The number of operands: the arity given, or that of the partials, or one."""
    if partials is not None and arity is not None and len(partials) != arity:
        raise ValueError(
            f"extend: {name}: {len(partials)} partials for {arity} operands. Give one for each."
        )
    count = len(partials) if partials else (1 if arity is None else arity)
    if count < 1:
        raise ValueError(f"extend: {name}: arity {count} is less than 1. Give it an operand.")
    return count


def known_rule(
    name: str, what: str, given: Rule | Undefined | str, known: Mapping[str, Rule]
) -> Rule | Undefined:
    """A rule that is given, or known by a word."""
    if not isinstance(given, str) and (callable(given) or isinstance(given, Undefined)):
        return given
    if given not in known:
        raise ValueError(
            f"extend: {name}: {what}={given!r} is unknown. Use a function, or one of "
            f"{', '.join(map(repr, known))}."
        )
    return known[given]


def as_specs(name: str, given: Any) -> Spec | tuple[Spec, ...]:
    """What a spec rule returned, as a Spec or a tuple of them."""
    if isinstance(given, Spec):
        return given
    if isinstance(given, list) or (isinstance(given, tuple) and given and _is_spec(given[0])):
        return tuple(_as_spec(name, one) for one in given)
    return _as_spec(name, given)


def _as_spec(name: str, given: Any) -> Spec:
    if isinstance(given, Spec):
        return given
    if _is_spec(given):
        shape, dtype = given
        return spec(tuple(int(n) for n in shape), as_dtype(dtype))
    raise TypeError(
        f"extend: the spec of {name} gave {given!r}. Return a Spec, a (shape, dtype) pair, or a "
        "list of them for several results."
    )


def _is_spec(given: object) -> bool:
    return isinstance(given, Spec) or (
        isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], (tuple, list))
    )


def checked_kernel(
    name: str, kernel: Rule, rule: Callable[..., Spec | tuple[Spec, ...]], cast: bool
) -> Callable[..., np.ndarray | tuple[np.ndarray, ...]]:
    """The kernel, with a check that its results are as the spec says."""

    def checked(*given: object, **params: object) -> np.ndarray | tuple[np.ndarray, ...]:
        arrays = tuple(map(np.asarray, given))
        expected = rule(*[spec(one.shape, one.dtype) for one in arrays], **params)
        several = isinstance(expected, tuple)
        found = kernel(*arrays, **params)
        parts = tuple(found) if several and isinstance(found, (tuple, list)) else (found,)
        specs = expected if isinstance(expected, tuple) else (expected,)
        if len(parts) != len(specs):
            raise ValueError(
                f"{name}: its kernel gave {len(parts)} results, its spec says {len(specs)}. "
                "Return a tuple of as many."
            )
        results = []
        for part, of in zip(parts, specs, strict=True):
            result = np.asarray(part)
            if cast and result.dtype.kind == of.dtype.kind:
                result = result.astype(of.dtype, copy=False)
            if (result.shape, result.dtype) != (of.shape, of.dtype):
                raise ValueError(
                    f"{name}: its kernel gave {result.dtype} of shape {result.shape}, where its "
                    f"spec says {of.dtype} of shape {of.shape}."
                )
            results.append(result)
        return tuple(results) if several else results[0]

    return checked
