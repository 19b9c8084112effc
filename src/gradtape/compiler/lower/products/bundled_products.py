"""Several sums of products as one instruction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gradtape.compiler.emit.plans import frame
from gradtape.compiler.emit.plans.bundles import BundleArguments, bundle_ir
from gradtape.compiler.emit.plans.dots import DotArguments
from gradtape.compiler.emit.plans.instructions import Instruction
from gradtape.compiler.lower.products.dot_products import dot_instruction
from gradtape.compiler.lower.products.lane_products import lane_instruction
from gradtape.compiler.lower.products.tiled_products import (
    Contraction,
    LoopAxis,
    Words,
    module_of,
)
from gradtape.compiler.machine_limits import second_cache
from gradtape.compiler.objects import llvm
from gradtape.compiler.thread_team import get_num_threads
from gradtape.config import (
    ASSUMED_SECOND_CACHE,
    BUNDLE_SHARES,
    LEAST_PANEL_EVENNESS,
    LEAST_TILES_AT_ONCE,
    PARALLEL_PRODUCT_WORK,
)


def bundled(products: Sequence[Contraction], nbytes: int) -> Instruction:
    """The instruction that computes several contractions, each by the fastest kernel.

    They read and write `nbytes` in all. If that is more than the second cache, all of them are
    computed for some rows at a time. If contractions add to what others have written, each thread
    has the same elements of the result in all of them.
    """
    if len(products) == 1:
        return instruction_of(products[0])
    times = 1
    if any(product.adds for product in products):
        parts = _adding_parts(products)
    else:
        parts = [instruction_of(product) for product in products]
        most = max(_words(part).outer_rows * _words(part).tiles for part in parts)
        times = min(nbytes // (second_cache() or ASSUMED_SECOND_CACHE), most // LEAST_TILES_AT_ONCE)
        if times > 1:
            parts = [_by_rows(part) for part in parts]
    words = BundleArguments(len(parts), BUNDLE_SHARES, BUNDLE_SHARES // max(times, 1))
    work = sum(part.work for part in parts)
    parallel = work >= PARALLEL_PRODUCT_WORK
    function = llvm.NativeFunction(module_of(bundle_ir), "bundle")
    code = (function, [part.code for part in parts])
    return Instruction(
        function, words, BUNDLE_SHARES, 1, parallel, work, code=code, parts=tuple(parts)
    )


def instruction_of(product: Contraction) -> Instruction:
    """The instruction that computes a contraction by the fastest kernel."""
    return lane_instruction(product) or dot_instruction(product) or product.instruction()


def _adding_parts(products: Sequence[Contraction]) -> list[Instruction]:
    """Instructions that add up, all by one kernel.

    Threads share panels of columns, items of the batch, or parts of the first axis of rows: these
    are the same elements of the result in all contractions.
    """
    lanes = [part for product in products if (part := lane_instruction(product)) is not None]
    if len(lanes) == len(products):
        return [_split(part, frame.SPLIT_PANELS) for part in lanes]
    parts, threads = [product.instruction() for product in products], get_num_threads()
    pieces = max(n for n in range(1, threads + 1) if products[0].rows[0].length % n == 0)
    panels, batch = (_count(parts[0], split) for split in (frame.SPLIT_PANELS, frame.SPLIT_BATCH))
    evenness = {
        frame.SPLIT_BATCH: _evenness(max(batch, pieces), threads),
        frame.SPLIT_PANELS: _evenness(panels, threads),
    }
    split = max(evenness, key=evenness.__getitem__)
    if split == frame.SPLIT_BATCH and batch < pieces:
        parts = [_in_pieces(product, pieces).instruction() for product in products]
    elif evenness[split] < LEAST_PANEL_EVENNESS:
        parts = [product.instruction(narrow=True) for product in products]
        split = frame.SPLIT_PANELS
    return [_split(part, split) for part in parts]


def _in_pieces(product: Contraction, count: int) -> Contraction:
    """The contraction with parts of the first axis of rows as items of the batch."""
    axis, *others = product.rows
    length = axis.length // count
    piece = LoopAxis(count, length * axis.a, 0, length * axis.c)
    rows = [replace(axis, length=length), *others]
    return replace(product, rows=rows, batch=[*product.batch, piece])


def _evenness(count: int, threads: int) -> float:
    """The share of the time that threads work, if they share `count` parts."""
    return count / (-(-count // threads) * threads)


def _words(part: Instruction) -> Words:
    assert isinstance(part.arguments, Words)
    return part.arguments


def _by_rows(part: Instruction) -> Instruction:
    """The instruction with the rows as its range."""
    outer = _words(part).outer_rows > 1
    return _split(part, frame.SPLIT_ROWS if outer else frame.SPLIT_TILES)


def _split(part: Instruction, split: int) -> Instruction:
    """The instruction with another range."""
    words = _words(part)._replace(split=split)
    return replace(part, arguments=words, total=_count(part, split))


def _count(part: Instruction, split: int) -> int:
    """The length of the range of an instruction for this count."""
    words = _words(part)
    if split == frame.SPLIT_PANELS:
        assert not isinstance(words, DotArguments)
        return words.panels
    counts = {
        frame.SPLIT_BATCH: words.batch,
        frame.SPLIT_ROWS: words.outer_rows,
        frame.SPLIT_TILES: words.tiles,
    }
    return counts[split]
