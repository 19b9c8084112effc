"""What gt.function has captured, in words: `explain()`, and warnings of what costs time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gradtape.functions.steps import Step
from gradtape.graph.lines import warn

# One guard that has met so many values is worth a warning.
VALUES = 5


def _milliseconds(spent: Sequence[float]) -> str:
    texts = [f"{each * 1e3:.1f}" for each in spent]
    return f"{', '.join(texts[:-1])} and {texts[-1]} ms" if len(texts) > 1 else f"{texts[0]} ms"


def warn_of_captures(name: str, known: Sequence[Any]) -> None:
    """A function has been captured for many kinds of calls, the last of them being new."""
    *before, last = known
    spent = [each.seconds for each in before if each.latest]
    cost = f" Each took time: {_milliseconds(spent)}." if spent else ""
    label, old, new = last.why or ("the arguments", "of one kind", "of another")
    warn(
        f"gt.function: {name} has been captured {len(known)} times; the last time because {label} "
        f"was {old} and is {new}.{cost} {_remedy(old, new)}"
    )


def _remedy(old: str, new: str) -> str:
    """What helps, by what an argument was and is."""
    if "[" in old and "[" in new and "(" not in new:
        return (
            "Pass tensors of one shape and dtype, for example by padding batches to a few lengths."
        )
    if new.lstrip("-").isdigit():
        return "Pass it as a float or a tensor, or decorate with reduce_retracing=True."
    return (
        "Pass values that change as floats or tensors, and the same objects for what does not; "
        "or decorate a smaller function."
    )


def warn_of_paths(name: str, latest: Iterable[float], step: Step) -> None:
    """A guard has met another value than ever before. Integers that count or index come back."""
    if len(step.values) != VALUES + 1 or not isinstance(step.values[0], (float, complex)):
        return
    *_, old, new = step.values
    spent = list(latest)
    warn(
        f"gt.function: {name} has run in Python for {len(step.values)} values of {step.label}, "
        f"which it looks at in {step.line}; the last time because {step.label} was {old!r} and is "
        f"{new!r}. Each took time: {_milliseconds(spent) if spent else 'unknown'}. Compute with it "
        "by gt functions, which take tensors and numbers alike, instead of math or float()."
    )


def explained(name: str, known: Sequence[Any]) -> str:
    """What was captured, why, and what it cost."""
    count = len(known)
    lines = [f"{name}: {count} {'kind' if count == 1 else 'kinds'} of calls"]
    for number, each in enumerate(known, start=1):
        why = "first call" if each.why is None else "{} was {} and is {}".format(*each.why)
        lines.append(
            f"{number}. {why}: {each.calls} calls, {each.paths} "
            f"{'path' if each.paths == 1 else 'paths'}, {each.seconds * 1e3:.1f} ms to capture"
        )
        if each.refused is not None:
            lines.append(f"   runs in Python: {each.refused}")
        if each.read:
            lines.append(f"   reads {', '.join(each.read)}")
        if each.assigned:
            names = ", ".join(variable.name for variable in each.assigned)
            lines.append(f"   assigns {names}, at its end")
        if each.draws:
            lines.append("   draws random numbers")
        lines += [f"   looks at {what}" for what in _guards(each.root)]
    lines.append("Effects other than on variables and generators happen while capturing only.")
    return "\n".join(lines)


def _guards(step: Step) -> list[str]:
    """What the steps look at and where, with the values seen."""
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
