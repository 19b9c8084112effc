"""Bundles: several kernels in one instruction, such as those of the phases of a convolution.

Each thread has the same share of the range of each kernel. Some shares of all are computed before
the next ones, so that kernels find in the cache what others have read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from gradtape.compiler.emit.plans.instructions import PART_WORDS, kernel_routine
from gradtape.compiler.emit.writer import Routine


class BundleArguments(NamedTuple):
    """The words of `bundle`, before those of its parts: the function, arguments and total of each.

    The range of the instruction has so many shares; some of them are computed at once.
    """

    kernels: int
    shares: int
    at_once: int


def bundle_ir() -> str:
    """The module with `bundle`."""
    r = kernel_routine("bundle")
    w = r.words("%args", BundleArguments._fields)
    table = r.at("%args", 8 * len(w))
    with (
        cut_in_blocks(r, "%lo", "%hi", w["at_once"]) as (first, last),
        r.loop(w["kernels"]) as index,
    ):
        row = r.row(table, index, PART_WORDS)
        function, arguments, total = r.pointer(row), r.pointer(row, 8), r.word(row, 16)
        lo, hi = (
            r.let(f"sdiv i64 {r.let(f'mul i64 {end}, {total}')}, {w['shares']}")
            for end in (first, last)
        )
        with r.when(r.compare("slt", lo, hi)):
            pointers = "ptr %slots", f"ptr {arguments}"
            r.do(function, *pointers, f"i64 {lo}", f"i64 {hi}", "i64 %part")
    r.end("ret void")
    return r.text()


@contextlib.contextmanager
def cut_in_blocks(r: Routine, start: str, stop: str, step: str) -> Iterator[tuple[str, str]]:
    """Lines that run for each block of a range: its first number, and the one after its last."""
    length = r.add(r.subtract(stop, start), r.subtract(step, 1))
    with r.loop(r.let(f"sdiv i64 {length}, {step}")) as number:
        first = r.add(start, r.multiply(number, step))
        last = r.add(first, step)
        yield first, r.select(r.compare("slt", last, stop), last, stop)
