"""Bundles: several kernels in one instruction, such as those of the phases of a convolution.

Each thread has the same share of the range of each kernel. Some shares of all are computed before
the next ones, so that kernels find in the cache what others have read.

A chain of loops that work row by row on the same arrays, as the passes of a softmax do, is a bundle
whose shares are rows: as many at once as stay in the second cache. `compiler.lower.kernel_chains`
finds chains.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from gradtape.compiler.emit.plans.instructions import PART_WORDS, kernel_routine
from gradtape.compiler.emit.writer import Routine, Word, module


class BundleArguments(NamedTuple):
    """The words of `bundle`, before those of its parts: the function, arguments and total of each.

    A share of the range of the instruction is `total / shares` numbers of that of a part, and
    `at_once` shares are computed at once.
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
        cut_in_blocks(r, "%lo", "%hi", w["at_once"]) as bounds,
        r.loop(w["kernels"]) as index,
    ):
        row = r.row(table, index, PART_WORDS)
        function, arguments, total = r.pointer(row), r.pointer(row, 8), r.word(row, 16)
        lo, hi = (r.op("sdiv", r.multiply(end, total), w["shares"]) for end in bounds)
        with r.when(r.compare("slt", lo, hi)):
            r.do(function, "%slots", arguments, lo, hi, "%part")
    return module(r)


@contextlib.contextmanager
def cut_in_blocks(r: Routine, start: Word, stop: Word, step: Word) -> Iterator[tuple[str, str]]:
    """Lines that run for each block of a range: its first number, and the one after its last."""
    length = r.add(r.subtract(stop, start), r.subtract(step, 1))
    with r.loop(r.op("sdiv", length, step)) as number:
        first = r.add(start, r.multiply(number, step))
        yield first, r.least(r.add(first, step), stop)
