"""Subscripts of Einstein summation: parse them, check lengths, and write canonical subscripts."""

from __future__ import annotations

import string
from collections.abc import Sequence

from gradtape.errors import ShapeError
from gradtape.graph.spec import Shape

# One label per axis: a letter, or `.0`, `.1`, ... for the axes that an ellipsis stands for.
Labels = tuple[str, ...]

LETTERS = string.ascii_letters


def parse(subscripts: str, shapes: Sequence[Shape]) -> tuple[list[Labels], Labels]:
    """Parse subscripts into the labels of each operand and of the result."""
    if not isinstance(subscripts, str):
        raise TypeError(
            f"einsum: subscripts {subscripts!r} are not a string. Write them as in 'ij,jk->ik'."
        )
    text = subscripts.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    parts = inputs.split(",")
    if len(parts) != len(shapes):
        raise ValueError(
            f"einsum: {subscripts!r} names {len(parts)} operands and {len(shapes)} were given. "
            "Separate the subscripts of each with a comma."
        )
    terms = [
        _labels(subscripts, part, position, shape)
        for position, (part, shape) in enumerate(zip(parts, shapes, strict=True))
    ]
    dots = _ellipsis(max((_ellipsis_length(term) for term in terms), default=0))
    if arrow:
        result = _output_labels(subscripts, output, dots)
    else:
        every = [label for term in terms for label in term]
        once = {label for label in every if every.count(label) == 1 and label not in dots}
        result = dots + tuple(sorted(once))
    known = {label for term in terms for label in term}
    for label in result:
        if label not in known:
            raise ValueError(
                f"einsum: label {label!r} of the result is in no operand ({subscripts!r}). "
                "Every label of the result must name an axis."
            )
    if len(set(result)) != len(result):
        raise ValueError(
            f"einsum: the result of {subscripts!r} repeats a label. Name each of its axes once."
        )
    if arrow and dots and "..." not in output:
        raise ValueError(
            f"einsum: the operands of {subscripts!r} have axes under '...' and the "
            "result has none. "
            "Write '...' in the result, or sum those axes first."
        )
    return terms, result


def _ellipsis(count: int) -> Labels:
    """Labels of an ellipsis' axes, numbered from the last, as broadcasting aligns them."""
    return tuple(f".{number}" for number in reversed(range(count)))


def _ellipsis_length(term: Labels) -> int:
    return sum(label[0] == "." for label in term)


def _letters(subscripts: str, part: str) -> tuple[str, str, bool]:
    before, dots, after = part.partition("...")
    for label in before + after:
        if label not in LETTERS:
            raise ValueError(
                f"einsum: {label!r} in {subscripts!r} is not a label. "
                "Labels are letters; write '...' once per operand for the axes without one."
            )
    return before, after, bool(dots)


def _labels(subscripts: str, part: str, position: int, shape: Shape) -> Labels:
    before, after, dots = _letters(subscripts, part)
    extra = len(shape) - len(before) - len(after)
    if extra < 0 or (extra and not dots):
        raise ShapeError(
            f"einsum: operand {position} has shape {shape} and subscripts {part!r}, "
            f"which name {len(before) + len(after)} axes. Name each axis, or write '...'."
        )
    return (*before, *_ellipsis(extra), *after)


def _output_labels(subscripts: str, part: str, dots: Labels) -> Labels:
    before, after, has_dots = _letters(subscripts, part)
    return (*before, *dots, *after) if has_dots else tuple(before)


def sizes_of(terms: Sequence[Labels], shapes: Sequence[Shape]) -> dict[str, int]:
    """The length of each label; a length of 1 broadcasts to any other."""
    sizes: dict[str, int] = {}
    origin: dict[str, int] = {}
    for position, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        for label, n in zip(term, shape, strict=True):
            if sizes.get(label, 1) == 1:
                sizes[label], origin[label] = n, position
            elif n not in (1, sizes[label]):
                listed = " and ".join(str(tuple(one)) for one in shapes)
                name = "an axis under '...'" if label[0] == "." else f"label {label!r}"
                raise ShapeError(
                    f"einsum: {name} is {sizes[label]} in operand {origin[label]} and {n} in "
                    f"operand {position} (shapes {listed}). Give the axes the same length."
                )
    return sizes


def canonical(terms: Sequence[Labels], output: Labels) -> str:
    """Rename labels in order of appearance, so that equal contractions have equal subscripts."""
    names: dict[str, str] = {}
    for term in terms:
        for label in term:
            if label not in names:
                if len(names) == len(LETTERS):
                    raise ValueError(f"einsum: more than {len(LETTERS)} labels. Use fewer axes.")
                names[label] = LETTERS[len(names)]
    inputs = ",".join("".join(names[label] for label in term) for term in terms)
    return f"{inputs}->{''.join(names[label] for label in output)}"
