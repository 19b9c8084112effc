"""Matrix products as kernels: the IR that turns a plan's words into BLAS calls.

Matrices are row-major in gradtape and column-major in BLAS, so C = op(A) op(B) is computed as
C' = op(B)' op(A)': the operands change places and nothing is copied.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from gradtape.compiler.emit.plans.instructions import kernel_routine
from gradtape.compiler.emit.writer import Routine, Typed, Word, module
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


class _Product:
    """The routine of a kernel, and the part of a product that one call of it computes."""

    def __init__(self, name: str, letter: str, local_threads: bool) -> None:
        """Read the words; goes to `done` if there is nothing to compute."""
        self.r = r = kernel_routine(name)
        self.name = f"@{symbol(letter, name)}"
        self.scalar = _SCALARS[letter][0]
        # The words by name, and their addresses: BLAS takes sizes by reference.
        self.words = words = r.words("%args", GemmArguments._fields)
        self.at = {each: r.at("%args", 8 * n) for n, each in enumerate(GemmArguments._fields)}
        # The first row, column and item, the ends, and the addresses of the counts.
        self.row, _, self.rows, self.rows_at = self._part(SPLIT_ROWS, "m")
        self.column, _, _, self.columns_at = self._part(SPLIT_COLUMNS, "n")
        self.item, self.items_end, _, _ = self._part(SPLIT_BATCH, "batch")
        # The first element of each operand in its buffer, before offsets.
        self.buffers = {x: r.pointer("%slots", r.scaled(words[f"slot_{x}"])) for x in "abc"}
        self._local_threads = local_threads

    def _part(self, split: int, whole: str) -> tuple[Typed, Typed, Typed, Typed]:
        """The begin and the end of a part, its length, and the address of that.

        Sizes are stored as 64-bit words: a BLAS with 32-bit integers reads the low half of each.
        """
        r, words = self.r, self.words
        here = r.equal(words["split"], split)
        begin, end = r.select(here, "%lo", 0), r.select(here, "%hi", words[whole])
        count, place = r.subtract(end, begin), r.alloca()
        r.put(place, 0, count)
        r.go_if(r.compare("sle", count, 0), "done")
        return begin, end, count, place

    def first(self, name: str, index: Word) -> Typed:
        """The address of an element of an operand, before offsets."""
        return self.r.item(self.scalar, self.buffers[name], index)

    def of_item(self, name: str, first: str, index: str) -> Typed:
        """The address of an operand in one item of the batch."""
        r, words = self.r, self.words
        return r.at(
            first, r.add(r.multiply(index, words[f"stride_{name}"]), words[f"offset_{name}"])
        )

    @contextlib.contextmanager
    def items(self) -> Iterator[str]:
        """Lines for each item of the batch; the library is held to one thread meanwhile."""
        r = self.r
        before = r.call("i32", f"@{LOCAL_THREADS}", "i32 1") if self._local_threads else None
        with r.loop(self.items_end, self.item) as index:
            yield index
        if before:
            r.call("i32", f"@{LOCAL_THREADS}", before)
        r.block("done")


def _gemm(letter: str, local_threads: bool) -> Routine:
    part = _Product("gemm", letter, local_threads)
    r, words, at = part.r, part.words, part.at
    a_step = r.select(r.equal(words["transa"], PLAIN), words["lda"], 1)
    b_step = r.select(r.equal(words["transb"], PLAIN), 1, words["ldb"])
    first = {
        "a": part.first("a", r.multiply(part.row, a_step)),
        "b": part.first("b", r.multiply(part.column, b_step)),
        "c": part.first("c", r.add(r.multiply(part.row, words["ldc"]), part.column)),
    }
    codes = [r.at("@codes", words[f"trans{name}"]) for name in "ba"]
    sizes = (part.columns_at, part.rows_at, at["k"])
    one, beta = (r.item(part.scalar, "@scalars", number) for number in (1, words["beta"]))
    with part.items() as index:
        a, b, c = (part.of_item(name, first[name], index) for name in "abc")
        factors = (one, b, at["ldb"], a, at["lda"], beta, c, at["ldc"])
        r.do(part.name, *codes, *sizes, *factors)
    return r


def _gemv(letter: str, local_threads: bool) -> Routine:
    part = _Product("gemv", letter, local_threads)
    r, words, at, zero = part.r, part.words, part.at, _SCALARS[letter][1]
    transposed = r.equal(words["transa"], TRANSPOSED)
    a_step = r.select(transposed, 1, words["lda"])
    a_first = part.first("a", r.multiply(part.row, a_step))
    c_first = part.first("c", r.multiply(part.row, words["ldc"]))
    code = r.at("@codes.gemv", words["transa"])
    long_at = r.select(transposed, part.rows_at, at["k"])
    wide_at = r.select(transposed, at["k"], part.rows_at)
    overwrites, one = r.equal(words["beta"], 0), r.item(part.scalar, "@scalars", 1)
    with part.items() as index:
        firsts = {"a": a_first, "b": part.buffers["b"], "c": c_first}
        a, b, c = (part.of_item(name, firsts[name], index) for name in "abc")
        # The result is zeroed here: libraries differ on whether zero times an old NaN is zero, and
        # they return early when k is zero.
        with r.when(overwrites), r.loop(part.rows) as element:
            r.store(zero, r.item(part.scalar, c, r.multiply(element, words["ldc"])), part.scalar)
        factors = (one, a, at["lda"], b, at["ldb"], one, c, at["ldc"])
        r.do(part.name, code, long_at, wide_at, *factors)
    return r


_HOLD_STATE = """
@lock = internal global i32 0
@holders = internal global i64 0
@saved = internal global i32 0
"""


def hold_ir() -> str:
    """The module with `hold` and `release`, which keep a library to one thread in between.

    Plans of several threads may overlap: the first sets the count to one, the last restores it.
    """
    return module(_HOLD_STATE, _enter(), _hold("hold", 1, 0), _hold("release", -1, 1), _reset())


def _enter() -> Routine:
    r = Routine("internal void @enter()")
    r.block("ask")
    r.go_if(r.replaced("@lock", 0, 1, "acquire monotonic"), "done")
    r.go("ask")
    r.block("done")
    return r


def _leave(r: Routine) -> None:
    r.store_shared(0, "@lock", "i32", "release")


def _hold(name: str, step: int, last: int) -> Routine:
    """`hold` or `release`: count the holders, and set the threads where `last` held before."""
    r = kernel_routine(name)
    r.do("@enter")
    holders = r.word("@holders")
    r.put("@holders", 0, r.add(holders, step))
    with r.when(r.equal(holders, last)):
        if name == "hold":
            r.store(r.call("i32", f"@{GET_THREADS}"), "@saved")
        threads = r.load("i32", "@saved")
        with r.when(r.unequal(threads, 1)):
            r.do(f"@{SET_THREADS}", "i32 1" if name == "hold" else threads)
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
