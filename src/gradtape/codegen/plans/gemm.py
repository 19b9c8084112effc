"""Matrix products as kernels: the IR that turns a plan's words into BLAS calls.

All matrices are row-major here and column-major in BLAS, so C = op(A) op(B) is asked for as
C' = op(B)' op(A)': the operands change places and nothing is copied.
"""

from __future__ import annotations

from typing import NamedTuple

# What `transa` and `transb` say of the stored matrix.
PLAIN, TRANSPOSED, CONJUGATE_TRANSPOSED = 0, 1, 2

# What the range of the kernel counts.
SPLIT_ROWS, SPLIT_COLUMNS, SPLIT_BATCH = 0, 1, 2

LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
_SCALARS = {
    "s": ("float", "0.0", "1.0", 4),
    "d": ("double", "0.0", "1.0", 8),
    "c": ("[2 x float]", "zeroinitializer", "[float 1.0, float 0.0]", 8),
    "z": ("[2 x double]", "zeroinitializer", "[double 1.0, double 0.0]", 16),
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
    scalar, zero, one, size = _SCALARS[letter]
    loads = "".join(
        f"  %{name}.at = getelementptr i64, ptr %args, i64 {index}\n"
        f"  %{name} = load i64, ptr %{name}.at\n"
        for index, name in enumerate(GemmArguments._fields)
    )
    text = _COMMON + _GEMM + _GEMV + (_LOCAL_THREADS if local_threads else _ANY_THREADS)
    replacements = {
        "PREPARE": loads + _PREPARE,
        "SCALAR": scalar,
        "ZERO": zero,
        "ONE": one,
        "SIZE": str(size),
        "GEMM": symbol(letter, "gemm"),
        "GEMV": symbol(letter, "gemv"),
        "LOCAL": LOCAL_THREADS,
    }
    for name, value in replacements.items():
        text = text.replace(f"${name}$", value)
    return text


def hold_ir() -> str:
    """The module with `hold` and `release`, which keep a library to one thread in between.

    Plans of several threads may overlap: the first sets the count to one, the last restores it.
    """
    text = _HOLD
    for name, value in (("GET", GET_THREADS), ("SET", SET_THREADS)):
        text = text.replace(f"${name}$", value)
    return text


_COMMON = """
@codes = private constant [3 x i8] c"NTC"
@codes.gemv = private constant [3 x i8] c"TNC"
@scalars = private constant [2 x $SCALAR$] [$SCALAR$ $ZERO$, $SCALAR$ $ONE$]
declare void @$GEMM$(ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr)
declare void @$GEMV$(ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr)
"""

_ANY_THREADS = """
define internal i32 @threads(i32 %count) alwaysinline {
  ret i32 0
}
"""

_LOCAL_THREADS = """
declare i32 @$LOCAL$(i32)
define internal i32 @threads(i32 %count) alwaysinline {
  %before = call i32 @$LOCAL$(i32 %count)
  ret i32 %before
}
"""

# Sizes are stored as 64-bit words: a BLAS with 32-bit integers reads the low half of each.
_PREPARE = """
  %by.rows = icmp eq i64 %split, 0
  %by.columns = icmp eq i64 %split, 1
  %by.batch = icmp eq i64 %split, 2
  %row = select i1 %by.rows, i64 %lo, i64 0
  %row.end = select i1 %by.rows, i64 %hi, i64 %m
  %rows = sub i64 %row.end, %row
  %column = select i1 %by.columns, i64 %lo, i64 0
  %column.end = select i1 %by.columns, i64 %hi, i64 %n
  %columns = sub i64 %column.end, %column
  %item = select i1 %by.batch, i64 %lo, i64 0
  %item.end = select i1 %by.batch, i64 %hi, i64 %batch
  %no.rows = icmp sle i64 %rows, 0
  %no.columns = icmp sle i64 %columns, 0
  %no.items = icmp sge i64 %item, %item.end
  %empty.0 = or i1 %no.rows, %no.columns
  %empty = or i1 %empty.0, %no.items
  %a.slot = getelementptr ptr, ptr %slots, i64 %slot_a
  %a.buffer = load ptr, ptr %a.slot
  %b.slot = getelementptr ptr, ptr %slots, i64 %slot_b
  %b.buffer = load ptr, ptr %b.slot
  %c.slot = getelementptr ptr, ptr %slots, i64 %slot_c
  %c.buffer = load ptr, ptr %c.slot
  %rows.at = alloca i64
  store i64 %rows, ptr %rows.at
  %columns.at = alloca i64
  store i64 %columns, ptr %columns.at
  %one.at = getelementptr $SCALAR$, ptr @scalars, i64 1
"""

_GEMM = """
define void @gemm(ptr %slots, ptr %args, i64 %lo, i64 %hi, i64 %part) {
entry:
$PREPARE$
  %a.plain = icmp eq i64 %transa, 0
  %a.step = select i1 %a.plain, i64 %lda, i64 1
  %b.plain = icmp eq i64 %transb, 0
  %b.step = select i1 %b.plain, i64 1, i64 %ldb
  %a.elements = mul i64 %row, %a.step
  %b.elements = mul i64 %column, %b.step
  %c.rows = mul i64 %row, %ldc
  %c.elements = add i64 %c.rows, %column
  %a.first = getelementptr $SCALAR$, ptr %a.buffer, i64 %a.elements
  %b.first = getelementptr $SCALAR$, ptr %b.buffer, i64 %b.elements
  %c.first = getelementptr $SCALAR$, ptr %c.buffer, i64 %c.elements
  %a.code = getelementptr i8, ptr @codes, i64 %transa
  %b.code = getelementptr i8, ptr @codes, i64 %transb
  %beta.value = getelementptr $SCALAR$, ptr @scalars, i64 %beta
  br i1 %empty, label %done, label %begin
begin:
  %before = call i32 @threads(i32 1)
  br label %loop
loop:
  %index = phi i64 [ %item, %begin ], [ %next, %loop ]
  %a.batch = mul i64 %index, %stride_a
  %b.batch = mul i64 %index, %stride_b
  %c.batch = mul i64 %index, %stride_c
  %a.bytes = add i64 %a.batch, %offset_a
  %b.bytes = add i64 %b.batch, %offset_b
  %c.bytes = add i64 %c.batch, %offset_c
  %a = getelementptr i8, ptr %a.first, i64 %a.bytes
  %b = getelementptr i8, ptr %b.first, i64 %b.bytes
  %c = getelementptr i8, ptr %c.first, i64 %c.bytes
  call void @$GEMM$(ptr %b.code, ptr %a.code, ptr %columns.at, ptr %rows.at, ptr %k.at,
                    ptr %one.at, ptr %b, ptr %ldb.at, ptr %a, ptr %lda.at,
                    ptr %beta.value, ptr %c, ptr %ldc.at)
  %next = add i64 %index, 1
  %more = icmp slt i64 %next, %item.end
  br i1 %more, label %loop, label %restore
restore:
  %ignored = call i32 @threads(i32 %before)
  br label %done
done:
  ret void
}
"""

# The result is zeroed here: libraries differ on whether zero times an old NaN is zero, and they
# return early when k is zero.
_GEMV = """
define void @gemv(ptr %slots, ptr %args, i64 %lo, i64 %hi, i64 %part) {
entry:
$PREPARE$
  %a.transposed = icmp eq i64 %transa, 1
  %a.step = select i1 %a.transposed, i64 1, i64 %lda
  %a.elements = mul i64 %row, %a.step
  %c.elements = mul i64 %row, %ldc
  %a.first = getelementptr $SCALAR$, ptr %a.buffer, i64 %a.elements
  %c.first = getelementptr $SCALAR$, ptr %c.buffer, i64 %c.elements
  %a.code = getelementptr i8, ptr @codes.gemv, i64 %transa
  %long.at = select i1 %a.transposed, ptr %rows.at, ptr %k.at
  %wide.at = select i1 %a.transposed, ptr %k.at, ptr %rows.at
  %overwrite = icmp eq i64 %beta, 0
  br i1 %empty, label %done, label %begin
begin:
  %before = call i32 @threads(i32 1)
  br label %loop
loop:
  %index = phi i64 [ %item, %begin ], [ %next, %product ]
  %a.batch = mul i64 %index, %stride_a
  %b.batch = mul i64 %index, %stride_b
  %c.batch = mul i64 %index, %stride_c
  %a.bytes = add i64 %a.batch, %offset_a
  %b.bytes = add i64 %b.batch, %offset_b
  %c.bytes = add i64 %c.batch, %offset_c
  %a = getelementptr i8, ptr %a.first, i64 %a.bytes
  %b = getelementptr i8, ptr %b.buffer, i64 %b.bytes
  %c = getelementptr i8, ptr %c.first, i64 %c.bytes
  br i1 %overwrite, label %zero, label %product
zero:
  %element = phi i64 [ 0, %loop ], [ %element.next, %zero ]
  %position = mul i64 %element, %ldc
  %at = getelementptr $SCALAR$, ptr %c, i64 %position
  store $SCALAR$ $ZERO$, ptr %at
  %element.next = add i64 %element, 1
  %element.more = icmp slt i64 %element.next, %rows
  br i1 %element.more, label %zero, label %product
product:
  call void @$GEMV$(ptr %a.code, ptr %long.at, ptr %wide.at, ptr %one.at, ptr %a, ptr %lda.at,
                    ptr %b, ptr %ldb.at, ptr %one.at, ptr %c, ptr %ldc.at)
  %next = add i64 %index, 1
  %more = icmp slt i64 %next, %item.end
  br i1 %more, label %loop, label %restore
restore:
  %ignored = call i32 @threads(i32 %before)
  br label %done
done:
  ret void
}
"""

_HOLD = """
@lock = internal global i32 0
@holders = internal global i64 0
@saved = internal global i32 0
declare i32 @$GET$()
declare void @$SET$(i32)

define internal void @enter() {
entry:
  br label %ask
ask:
  %swap = cmpxchg ptr @lock, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %swap, 1
  br i1 %mine, label %done, label %ask
done:
  ret void
}

define internal void @exit() {
  store atomic i32 0, ptr @lock release, align 4
  ret void
}

define void @hold(ptr %slots, ptr %args, i64 %lo, i64 %hi, i64 %part) {
entry:
  call void @enter()
  %count = load i64, ptr @holders
  %count.more = add i64 %count, 1
  store i64 %count.more, ptr @holders
  %first = icmp eq i64 %count, 0
  br i1 %first, label %set, label %done
set:
  %threads = call i32 @$GET$()
  store i32 %threads, ptr @saved
  %single = icmp eq i32 %threads, 1
  br i1 %single, label %done, label %change
change:
  call void @$SET$(i32 1)
  br label %done
done:
  call void @exit()
  ret void
}

define void @release(ptr %slots, ptr %args, i64 %lo, i64 %hi, i64 %part) {
entry:
  call void @enter()
  %count = load i64, ptr @holders
  %count.less = sub i64 %count, 1
  store i64 %count.less, ptr @holders
  %last = icmp eq i64 %count, 1
  br i1 %last, label %restore, label %done
restore:
  %threads = load i32, ptr @saved
  %single = icmp eq i32 %threads, 1
  br i1 %single, label %done, label %change
change:
  call void @$SET$(i32 %threads)
  br label %done
done:
  call void @exit()
  ret void
}

; For a forked child, in which no plan is running whatever the parent's threads were doing.
define void @reset() {
entry:
  %count = load i64, ptr @holders
  store i64 0, ptr @holders
  call void @exit()
  %held = icmp ne i64 %count, 0
  br i1 %held, label %restore, label %done
restore:
  %threads = load i32, ptr @saved
  call void @$SET$(i32 %threads)
  br label %done
done:
  ret void
}
"""
