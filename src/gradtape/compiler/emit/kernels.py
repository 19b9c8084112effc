"""Compile: kernels to machine code, each kernel once for all plans that call it.

LLVM parses, optimises and compiles modules of IR. Plans call the functions by address and hold the
code: a kernel is freed with its last plan.

How much work LLVM gets depends on the points of the loop (`Effort`): most programs end soon. For
few points the time of a call is not that of the loop, and optimising takes three to five times as
long as compiling the text as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gradtape.compiler.emit import builder
from gradtape.compiler.emit.columns import emit_columns
from gradtape.compiler.emit.loops import Emitter
from gradtape.compiler.emit.reductions import emit_rows, emit_running, emit_whole
from gradtape.compiler.emit.register_code import RegisterCode, register_routine
from gradtape.compiler.emit.writer import Routine, Word, module
from gradtape.compiler.lower.kernel import STRIDED, Kernel, KernelLayout, lane_count
from gradtape.compiler.lower.llvm_effort import Effort
from gradtape.compiler.objects import llvm
from gradtape.compiler.objects.emission import Source
from gradtape.concurrency import WeakTable, new_lock
from gradtape.config import (
    INNERMOST_CACHE,
    LONG_KERNEL_BODY,
    LONG_KERNEL_TEXT,
    MAP_BLOCK_ROWS,
    MAP_BLOCK_VECTORS,
)

# A loop, or a routine without loops.
AnyKernel = Kernel | RegisterCode


def kernel_function(
    kernel: AnyKernel, bits: int, name: str, effort: Effort = Effort.FULL
) -> Routine:
    """The IR function of a kernel."""
    if isinstance(kernel, RegisterCode):
        return register_routine(kernel, name)
    e = Emitter(kernel, lane_count(kernel, bits), name, in_strips=effort is Effort.FULL)
    _EMITTERS[kernel.layout](e)
    return e.routine()


def _vectors(e: Emitter, low: Word, high: Word, body: Callable[[str, str | None], None]) -> None:
    """One body per vector of points from low to high, the last one masked."""
    step = e.lanes
    if len(e.kernel.body) > LONG_KERNEL_BODY:
        e.loop(low, high, step, lambda i: body(i, e.mask(i, high)))
        return
    rest = e.r.op("and", e.r.subtract(high, low), e.lanes - 1)
    full = e.r.subtract(high, rest)
    e.loop(low, full, step, lambda i: body(i, None))
    e.loop(full, high, step, lambda i: body(i, e.mask(i, high)))


def _row(e: Emitter, outer: list[str], low: Word, high: Word) -> None:
    """All points of one row."""
    inner = e.kernel.axes - 1
    rows = e.moved(e.rows(outer))
    same = e.same_in_row(rows)

    def body(index: str, mask: str | None) -> None:
        e.point(rows, index, inner, mask, same)

    _vectors(e, low, high, body)


def _map(e: Emitter) -> None:
    inner = e.kernel.axes - 1
    if inner and any(operand.access == STRIDED for operand in e.operands):
        _map_in_blocks(e)
        return
    low, high = ("%lo", "%hi") if inner == 0 else (0, e.sizes[inner])
    e.outer_loops(inner, lambda outer: _row(e, outer, low, high))


def _map_in_blocks(e: Emitter) -> None:
    """Blocks of the two innermost axes, if some array lies along the other of them.

    All rows of a block then use the same lines of such an array, which stay in the innermost cache.
    """
    inner = e.kernel.axes - 1
    across = inner - 1
    columns = e.sizes[inner]
    width = columns
    for operand, strides in zip(e.operands, e.strides, strict=True):
        if operand.access == STRIDED:
            width = _block_width(e, width, strides[across], strides[inner])

    def block(outer: list[str]) -> None:
        low, high = ("%lo", "%hi") if not outer else (0, e.sizes[across])
        with e.r.loop(high, low, MAP_BLOCK_ROWS) as first:
            last = e.bounded(first, MAP_BLOCK_ROWS, high)
            with e.r.loop(columns, step=width) as start:
                end = e.bounded(start, width, columns)
                with e.r.loop(last, first) as row:
                    _row(e, [*outer, row], start, end)

    e.outer_loops(across, block)


def _block_width(e: Emitter, width: str, across: str, along: str) -> str:
    """The columns of a block, bounded for an array with these strides if it lies along the rows."""
    r = e.r
    short, long = (r.call("i64", "@llvm.abs.i64", stride, "false") for stride in (across, along))
    # Lines whose distance is a multiple of a large power of two share few sets of the cache.
    power = r.intrinsic("smax", r.op("and", long, r.subtract(0, long)), 1)
    fitting = r.intrinsic("smax", r.divided(INNERMOST_CACHE, power), e.lanes)
    fitting = r.least(r.least(fitting, MAP_BLOCK_VECTORS * e.lanes), width)
    return r.select(r.compare("slt", short, long), fitting, width)


def _inner_last(e: Emitter, body: Callable[[list[str]], None], indices: Sequence[str] = ()) -> None:
    """Loops over all axes but the innermost, which threads divide: each element has one writer."""
    if len(indices) == e.kernel.axes - 1:
        body([*indices])
        return
    with e.r.loop(e.sizes[len(indices)]) as index:
        _inner_last(e, body, [*indices, index])


def _scatter(e: Emitter) -> None:
    _inner_last(e, lambda outer: _row(e, outer, "%lo", "%hi"))


def _scatter_elements(e: Emitter) -> None:
    """One element after the other, in order: two positions may be the same."""
    _inner_last(e, lambda outer: e.element(e.moved(e.rows(outer))))


_EMITTERS: dict[KernelLayout, Callable[[Emitter], None]] = {
    KernelLayout.MAP: _map,
    KernelLayout.SCATTER: _scatter,
    KernelLayout.SCATTER_ELEMENTS: _scatter_elements,
    KernelLayout.RUNNING: emit_running,
    KernelLayout.ROWS: emit_rows,
    KernelLayout.COLUMNS: emit_columns,
    KernelLayout.WHOLE: emit_whole,
}


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class KernelCode:
    """The machine code of a kernel: a plan that may run it holds this object."""

    address: int
    module: llvm.Compiled


# By kernel, rounding mode and effort.
_known: WeakTable[tuple[AnyKernel, str, Effort], KernelCode] = WeakTable()
_lock = new_lock()


def module_text(
    kernels: Iterable[AnyKernel], effort: Effort = Effort.FULL
) -> tuple[str, dict[AnyKernel, str]]:
    """One module with a function for each kernel, to compile or to read."""
    bits = llvm.host().bits
    names = {kernel: f"kernel_{number}" for number, kernel in enumerate(kernels)}
    functions = [kernel_function(kernel, bits, name, effort) for kernel, name in names.items()]
    attributes = (
        f'attributes #0 = {{ nounwind "min-legal-vector-width"="{bits}" '
        f'"prefer-vector-width"="{bits}" }}'
    )
    return module(*functions, attributes, "!0 = !{i32 1}"), names


@dataclass(frozen=True)
class Codes:
    """The code of each requested kernel, and how many were compiled now, or loaded from disk."""

    of: dict[AnyKernel, KernelCode]
    compiled: int = 0
    loaded: int = 0


def compile_kernels(
    efforts: Mapping[AnyKernel, Effort], others: Iterable[llvm.NativeModule] = ()
) -> Codes:
    """The code of each kernel, compiled with some effort, and together with other modules.

    Quick ones are one module, because most of the time that they take is the module's. Each other,
    and each long routine, is a module of its own: so it is found on disk whichever others were
    compiled with it, and several processors compile them together.
    """
    mode = builder.rounding_mode()
    # Without the lock: a thread that compiles may hold it for long.
    found = _found(efforts, mode)
    fresh = [kernel for kernel in efforts if kernel not in found]
    quick = [kernel for kernel in fresh if efforts[kernel] is Effort.QUICK and not _is_long(kernel)]
    modules = [quick] if quick else []
    modules += [[kernel] for kernel in fresh if kernel not in quick]
    compiled = loaded = 0
    with _lock:
        # Another thread may have compiled some of them.
        found |= _found({kernel: efforts[kernel] for kernel in fresh}, mode)
        modules = [each for each in modules if not all(kernel in found for kernel in each)]
        written = [module_text(members, efforts[members[0]]) for members in modules]
        sources = [
            Source(text, _level(text, efforts[members[0]]), for_good=False)
            for members, (text, _) in zip(modules, written, strict=True)
        ]
        beside = [each for each in dict.fromkeys(others) if not each.is_compiled]
        codes = llvm.compile_modules([*sources, *(each.source for each in beside)])
        for each, code in zip(beside, codes[len(sources) :], strict=True):
            each.take(code)
        for members, (_, names), code in zip(modules, written, codes, strict=False):
            compiled += 0 if code.loaded else len(members)
            loaded += len(members) if code.loaded else 0
            for kernel, name in names.items():
                key = (kernel, mode, efforts[kernel])
                found[kernel] = _known.setdefault(key, KernelCode(code.address(name), code))
    return Codes(found, compiled, loaded)


def _is_long(kernel: AnyKernel) -> bool:
    return isinstance(kernel, RegisterCode) and not kernel.is_short


def _level(text: str, effort: Effort) -> int:
    return 0 if effort is Effort.QUICK else 1 if len(text) > LONG_KERNEL_TEXT else 2


def _found(efforts: Mapping[AnyKernel, Effort], mode: str) -> dict[AnyKernel, KernelCode]:
    """The kernels that are compiled already."""
    known = {kernel: _known.get((kernel, mode, effort)) for kernel, effort in efforts.items()}
    return {kernel: code for kernel, code in known.items() if code is not None}
