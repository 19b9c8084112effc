"""Matrix products as kernels: the IR that turns a plan's words into BLAS calls.

Matrices are row-major in gradtape and column-major in BLAS, so C = op(A) op(B) is asked for as
C' = op(B)' op(A)': the operands change places and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from gradtape.compiler.emit.plans.instructions import kernel_routine
from gradtape.compiler.emit.writer import Routine, module
from gradtape.records import dataclass

# Values of `transa` and `transb`: how the stored matrix enters the product.
PLAIN, TRANSPOSED, CONJUGATE_TRANSPOSED = 0, 1, 2

# Values of `split`: whether the range of the kernel counts rows, columns or items of the batch.
SPLIT_ROWS, SPLIT_COLUMNS, SPLIT_BATCH = 0, 1, 2

# By letter: the type in IR, and its zero and one.
_SCALARS = {
    "s": ("float", "0.0", "1.0"),
    "d": ("double", "0.0", "1.0"),
    "c": ("[2 x float]", "zeroinitializer", "[float 1.0, float 0.0]"),
    "z": ("[2 x double]", "zeroinitializer", "[double 1.0, double 0.0]"),
}


class GemmArguments(NamedTuple):
    """The words of a product kernel. Offsets and batch strides are bytes, the rest elements.

    For `gemv` n is 1: A is the matrix, `ldb` and `ldc` the steps of the two vectors, and
    `CONJUGATE_TRANSPOSED` means conjugated but, as stored, not transposed.
    """

    slot_a: int
    offset_a: int
    slot_b: int
    offset_b: int
    slot_c: int
    offset_c: int
    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldc: int
    transa: int
    transb: int
    beta: int
    batch: int
    stride_a: int
    stride_b: int
    stride_c: int
    split: int


@dataclass(frozen=True)
class MatrixOperand:
    """A matrix, or a stack of them, in a buffer of the plan. Offset and strides are bytes."""

    slot: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    conjugate: bool = False

    def transposed(self) -> MatrixOperand:
        """The same memory with its last two axes exchanged."""
        (*outer, rows, columns), (*steps, down, across) = self.shape, self.strides
        return replace(self, shape=(*outer, columns, rows), strides=(*steps, across, down))


def symbol(letter: str, routine: str) -> str:
    """The name under which the module calls a BLAS routine."""
    return f"gradtape_{letter}{routine}"


LOCAL_THREADS = "gradtape_set_threads_local"
GET_THREADS = "gradtape_get_threads"
SET_THREADS = "gradtape_set_threads"


def gemm_ir(letter: str, *, local_threads: bool = False) -> str:
    """The module with `gemm` and `gemv` of one scalar type.

    With `local_threads` each call holds the library to one thread, for the calling thread only.
    """
    scalar, zero, one = _SCALARS[letter]
    constants = [
        '@codes = private constant [3 x i8] c"NTC"',
        '@codes.gemv = private constant [3 x i8] c"TNC"',
        f"@scalars = private constant [2 x {scalar}] [{scalar} {zero}, {scalar} {one}]",
    ]
    return module(*constants, _gemm(letter, local_threads), _gemv(letter, local_threads))


@dataclass(frozen=True)
class _ProductPart:
    """The part of a product that one call of a kernel computes."""

    # The words by name, and their addresses: BLAS takes sizes by reference.
    words: Mapping[str, str]
    at: Mapping[str, str]
    # The first row, column and item of the batch, and the end of the items.
    row: str
    column: str
    item: str
    items_end: str
    # Rows in all, and the addresses of the counts of rows and columns.
    rows: str
    rows_at: str
    columns_at: str
    # The first element of each operand in its buffer, before offsets.
    buffers: Mapping[str, str]


def _prepared(r: Routine) -> _ProductPart:
    """Read the words; goes to `done` if there is nothing to compute."""
    words = r.words("%args", GemmArguments._fields)
    at = {name: r.at("%args", 8 * n) for n, name in enumerate(GemmArguments._fields)}

    def part(split: int, whole: str) -> tuple[str, str]:
        here = r.equal(words["split"], split)
        return r.select(here, "%lo", 0), r.select(here, "%hi", words[whole])

    row, rows_end = part(SPLIT_ROWS, "m")
    column, columns_end = part(SPLIT_COLUMNS, "n")
    item, items_end = part(SPLIT_BATCH, "batch")
    # Sizes are stored as 64-bit words: a BLAS with 32-bit integers reads the low half of each.
    counts = [
        (r.subtract(rows_end, row), r.alloca()),
        (r.subtract(columns_end, column), r.alloca()),
    ]
    for count, place in counts:
        r.put(place, 0, count)
        r.go_if(r.compare("sle", count, 0), "done")
    r.go_if(r.compare("sge", item, items_end), "done")
    buffers = {name: r.pointer("%slots", r.scaled(words[f"slot_{name}"])) for name in "abc"}
    (rows, rows_at), (_, columns_at) = counts
    return _ProductPart(words, at, row, column, item, items_end, rows, rows_at, columns_at, buffers)


def _of_item(r: Routine, part: _ProductPart, name: str, first: str, index: str) -> str:
    """The address of an operand in one item of the batch."""
    words = part.words
    return r.at(first, r.add(r.multiply(index, words[f"stride_{name}"]), words[f"offset_{name}"]))


def _on_one_thread(r: Routine, local_threads: bool) -> str:
    return r.call("i32", f"@{LOCAL_THREADS}", "i32 1") if local_threads else ""


def _finished(r: Routine, before: str) -> Routine:
    """The end of a kernel; `before` is the number of threads to restore, if there is one."""
    if before:
        r.call("i32", f"@{LOCAL_THREADS}", before)
    r.block("done")
    return r


def _gemm(letter: str, local_threads: bool) -> Routine:
    scalar = _SCALARS[letter][0]
    r = kernel_routine("gemm")
    part = _prepared(r)
    words, at, buffers = part.words, part.at, part.buffers
    a_step = r.select(r.equal(words["transa"], PLAIN), words["lda"], 1)
    b_step = r.select(r.equal(words["transb"], PLAIN), 1, words["ldb"])
    elements = {
        "a": r.multiply(part.row, a_step),
        "b": r.multiply(part.column, b_step),
        "c": r.add(r.multiply(part.row, words["ldc"]), part.column),
    }
    first = {name: r.item(scalar, buffers[name], elements[name]) for name in "abc"}
    codes = [r.at("@codes", words[f"trans{name}"]) for name in "ba"]
    sizes = (part.columns_at, part.rows_at, at["k"])
    one, beta = (r.item(scalar, "@scalars", number) for number in (1, words["beta"]))
    before = _on_one_thread(r, local_threads)
    with r.loop(part.items_end, part.item) as index:
        a, b, c = (_of_item(r, part, name, first[name], index) for name in "abc")
        factors = (one, b, at["ldb"], a, at["lda"], beta, c, at["ldc"])
        r.do(f"@{symbol(letter, 'gemm')}", *codes, *sizes, *factors)
    return _finished(r, before)


def _gemv(letter: str, local_threads: bool) -> Routine:
    scalar, zero, _ = _SCALARS[letter]
    r = kernel_routine("gemv")
    part = _prepared(r)
    words, at = part.words, part.at
    transposed = r.equal(words["transa"], TRANSPOSED)
    a_step = r.select(transposed, 1, words["lda"])
    a_first = r.item(scalar, part.buffers["a"], r.multiply(part.row, a_step))
    c_first = r.item(scalar, part.buffers["c"], r.multiply(part.row, words["ldc"]))
    code = r.at("@codes.gemv", words["transa"])
    long_at = r.select(transposed, part.rows_at, at["k"], "ptr")
    wide_at = r.select(transposed, at["k"], part.rows_at, "ptr")
    overwrites, one = r.equal(words["beta"], 0), r.item(scalar, "@scalars", 1)
    before = _on_one_thread(r, local_threads)
    with r.loop(part.items_end, part.item) as index:
        a = _of_item(r, part, "a", a_first, index)
        b = _of_item(r, part, "b", part.buffers["b"], index)
        c = _of_item(r, part, "c", c_first, index)
        # The result is zeroed here: libraries differ on whether zero times an old NaN is zero, and
        # they return early when k is zero.
        with r.when(overwrites), r.loop(part.rows) as element:
            r.store(zero, r.item(scalar, c, r.multiply(element, words["ldc"])), scalar)
        factors = (one, a, at["lda"], b, at["ldb"], one, c, at["ldc"])
        r.do(f"@{symbol(letter, 'gemv')}", code, long_at, wide_at, *factors)
    return _finished(r, before)


_HOLD_STATE = """
@lock = internal global i32 0
@holders = internal global i64 0
@saved = internal global i32 0
"""


def hold_ir() -> str:
    """The module with `hold` and `release`, which keep a library to one thread in between.

    Plans of several threads may overlap: the first sets the count to one, the last restores it.
    """
    return module(_HOLD_STATE, _enter(), _hold(), _release(), _reset())


def _enter() -> Routine:
    r = Routine("internal void @enter()")
    r.block("ask")
    r.go_if(r.replaced("@lock", 0, 1, "acquire monotonic"), "done")
    r.go("ask")
    r.block("done")
    return r


def _leave(r: Routine) -> None:
    r.store_shared(0, "@lock", "i32", "release")


def _hold() -> Routine:
    r = kernel_routine("hold")
    r.do("@enter")
    holders = r.word("@holders")
    r.put("@holders", 0, r.add(holders, 1))
    with r.when(r.equal(holders, 0)):
        threads = r.call("i32", f"@{GET_THREADS}")
        r.store(threads, "@saved")
        with r.when(r.unequal(threads, 1)):
            r.do(f"@{SET_THREADS}", "i32 1")
    _leave(r)
    return r


def _release() -> Routine:
    r = kernel_routine("release")
    r.do("@enter")
    holders = r.word("@holders")
    r.put("@holders", 0, r.subtract(holders, 1))
    with r.when(r.equal(holders, 1)):
        threads = r.load("i32", "@saved")
        with r.when(r.unequal(threads, 1)):
            r.do(f"@{SET_THREADS}", threads)
    _leave(r)
    return r


def _reset() -> Routine:
    """Restore the count in a forked child: the threads that ran plans in the parent are gone."""
    r = Routine("void @reset()")
    holders = r.word("@holders")
    r.put("@holders", 0, 0)
    _leave(r)
    with r.when(r.unequal(holders, 0)):
        r.do(f"@{SET_THREADS}", r.load("i32", "@saved"))
    return r
