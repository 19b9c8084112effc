"""Explain: what gt.function has captured, in words, and warnings of what costs time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gradtape.config import MOST_LISTED_GUARDS, UNREMARKABLE_GUARD_VALUES
from gradtape.display import Text
from gradtape.ir.origin import warn
from gradtape.jit.replay.steps import PathStep

if TYPE_CHECKING:
    from gradtape.jit.captured import Captured

# The replays until a check that does not come.
NEVER = 1 << 62


def _milliseconds(spent: Sequence[float]) -> str:
    texts = [f"{each * 1e3:.1f}" for each in spent]
    return f"{', '.join(texts[:-1])} and {texts[-1]} ms" if len(texts) > 1 else f"{texts[0]} ms"


def warn_of_captures(name: str, known: Sequence[Captured]) -> None:
    """Warn that a function was captured for many signatures, of which the last is new."""
    *before, last = known
    spent = [each.history.seconds for each in before if each.history.latest]
    cost = f" Each took time: {_milliseconds(spent)}." if spent else ""
    label, old, new = last.history.why or ("the arguments", "of one kind", "of another")
    warn(
        f"gt.function: {name} has been captured {len(known)} times; the last time because {label} "
        f"was {old} and is {new}.{cost} {_remedy(old, new)}"
    )


def _remedy(old: str, new: str) -> str:
    """Advice, by what an argument was and is."""
    if "[" in old and "[" in new and "(" not in new:
        return (
            "Pass tensors of one shape and dtype, for example by padding batches to a few lengths."
        )
    if new.lstrip("-").isdigit():
        return "Pass it as a float or a tensor, or decorate with dynamic_ints=True."
    return (
        "Pass values that change as floats or tensors, and the same objects for what does not; "
        "or decorate a smaller function."
    )


def warn_of_paths(name: str, latest: Iterable[float], step: PathStep) -> None:
    """Warn that a guard keeps meeting new floats. Integers count or index, and come back."""
    if len(step.values) != UNREMARKABLE_GUARD_VALUES + 1 or not isinstance(
        step.values[0], (float, complex)
    ):
        return
    *_, old, new = step.values
    spent = list(latest)
    if step.pinned >= 0:
        warn(
            f"gt.function: {name} has run in Python for {len(step.values)} values of {step.label}, "
            f"from {step.values[0]!r} to {new!r}: each gave another program, or is not used in it. "
            "Compute with it by gt functions, which take tensors and numbers alike, instead of "
            "math or NumPy; or leave it out."
        )
        return
    warn(
        f"gt.function: {name} has run in Python for {len(step.values)} values of {step.label}, "
        f"which it reads in {step.line}; the last time because {step.label} was {old!r} and is "
        f"{new!r}. Each took time: {_milliseconds(spent) if spent else 'unknown'}. Compute with it "
        "by gt functions, which take tensors and numbers alike, instead of math or float()."
    )


def explained(name: str, known: Sequence[Captured]) -> str:
    """The text of `Function.explain`."""
    lines = [f"{name}: {_count(len(known), 'kind')} of calls"]
    for number, each in enumerate(known, start=1):
        history, steps = each.history, each.steps
        why = "first call" if history.why is None else "{} was {} and is {}".format(*history.why)
        lines.append(
            f"{number}. {why}: {_count(each.calls, 'call')}, {_count(steps.paths, 'path')}, "
            f"{history.seconds * 1e3:.1f} ms to capture"
        )
        if history.refused is not None:
            remedy = f". {history.remedy}" if history.remedy else ""
            lines.append(f"   runs in Python: {history.refused}{remedy}")
        elif not steps.paths:
            lines.append("   is not replayed yet: two runs have to record the same program")
        lines += _checks(each)
        if steps.guards is not None:
            values = steps.guards.values()
            lines.append(f"   compares {_count(len(values), 'value')} outside at every call")
            lines += [f"     {label} is {value}" for label, value in values[:MOST_LISTED_GUARDS]]
            if len(values) > MOST_LISTED_GUARDS:
                lines.append(f"     and {len(values) - MOST_LISTED_GUARDS} more")
        if steps.read:
            lines.append(f"   reads {', '.join(steps.read)}")
        if steps.assigned:
            names = ", ".join(variable.name for variable in steps.assigned)
            lines.append(f"   assigns {names}, at its end")
        if steps.draws:
            lines.append("   draws random numbers")
        lines += [f"   reads {guard}" for guard in _guards(steps.root)]
        if each.contract.frozen:
            lines.append(
                "   is frozen: Python outside is read, and effects happen, at captures only"
            )
    return Text("\n".join(lines))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _checks(captured: Captured) -> list[str]:
    """The state of the checks: those made, the next one, and their findings."""
    history, steps = captured.history, captured.steps
    if captured.contract.frozen or (not steps.paths and not history.differences):
        return []
    lines = []
    if steps.paths:
        upcoming = captured.until_check
        when = "never" if upcoming >= NEVER else f"after {_count(max(upcoming, 0), 'more replay')}"
        lines.append(f"   checked by running it {_count(history.checks, 'time')}, next {when}")
    lines += [f"   a check found: {each}" for each in history.differences[-3:]]
    return lines


def _guards(step: PathStep) -> list[str]:
    """The guards of a tree, each with its line and the values seen."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    stack = [step]
    while stack:
        each = stack.pop()
        if each.guard is not None:
            values = found.setdefault((each.label, each.line), {})
            values.update(dict.fromkeys(map(repr, each.values)))
        stack += each.branches.values()
    return [
        f"a value at {line}: {label} was {', '.join(list(values)[:8])}"
        for (label, line), values in found.items()
    ]
