"""Sums over shards in a fixed order: halves of halves, whichever worker holds which shard.

The shards are the leaves of one binary tree. A worker that holds neighbouring shards sums the
largest subtrees that lie among them, and the process that has all parts finishes the tree. The
additions are the same for every number of workers, so the sums are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

Span = tuple[int, int]
T = TypeVar("T")


def middle(start: int, stop: int) -> int:
    """The position at which a span of shards is divided."""
    return (start + stop) // 2


def largest_spans(start: int, stop: int, low: int, high: int) -> list[Span]:
    """The largest subtrees of the tree over start..stop that lie within low..high.

    >>> from gradtape.distributed.pairwise import largest_spans
    >>> largest_spans(0, 8, 2, 7)
    [(2, 4), (4, 6), (6, 7)]
    """
    if low <= start and stop <= high:
        return [(start, stop)]
    if stop <= low or high <= start or stop - start == 1:
        return []
    half = middle(start, stop)
    return largest_spans(start, half, low, high) + largest_spans(half, stop, low, high)


def total(span: Span, known: Mapping[Span, T], add: Callable[[T, T], T]) -> T:
    """The sum of a subtree, from the sums of subtrees in it that are known.

    >>> from gradtape.distributed.pairwise import total
    >>> total((0, 3), {(0, 1): "a", (1, 2): "b", (2, 3): "c"}, lambda a, b: f"({a}+{b})")
    '(a+(b+c))'
    """
    found = known.get(span)
    if found is not None:
        return found
    start, stop = span
    if stop - start < 2:
        raise KeyError(f"shard {start} is missing")
    half = middle(start, stop)
    return add(total((start, half), known, add), total((half, stop), known, add))
