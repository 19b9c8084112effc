"""Loops and branches as kernels: the IR that runs the plan of a body again and again.

Each is a kernel like any other, `void f(ptr slots, ptr args, i64 lo, i64 hi, i64 part)`, so bodies
may hold loops and branches themselves. A body has slots of its own. They are filled from those of
the plan around it by *bindings*, and moved on after each step: by a constant for an element of a
sequence or a row of a result, and from one buffer to another for what is carried.

Args begin with the address of `run_plan` and of the word that holds the team.
"""

from __future__ import annotations

import itertools
import re

# Words of a row of each table.
BINDING = 3  # slot of the body, slot around it or -1, offset or address
MOVE = 2  # slot, step in bytes
CARRY = 6  # slot read, slot written; two buffers, the first for the last step
STATE = 10  # slot of the condition or -1; as above, but neither is the last; result and its bytes
BRANCH = 5  # instructions, their count, slots, bindings, their count

SCAN_WORDS = (
    "run", "team", "instructions", "count", "length", "slots", "bindings", "bound", "moves",
    "moving", "carries", "carried",
)  # fmt: skip
WHILE_WORDS = (
    "run", "team", "tests", "testing", "tested.slots", "tested.bindings", "tested.bound",
    "instructions", "count", "slots", "bindings", "bound", "answer.slot", "answer.offset",
    "maximum", "steps.slot", "steps.offset", "states", "carried",
)  # fmt: skip
BRANCH_WORDS = ("run", "team", "index.slot", "index.offset", "branches", "choices")
_POINTERS = {
    "run", "team", "instructions", "bindings", "moves", "carries", "tests", "tested.bindings",
    "states", "branches",
}  # fmt: skip


def control_ir() -> str:
    """The module with `scan`, `repeat` (while) and `choose` (branch)."""
    text = _COMMON + _SCAN + _WHILE + _BRANCH
    for name, words in (("SCAN", SCAN_WORDS), ("WHILE", WHILE_WORDS), ("BRANCH", BRANCH_WORDS)):
        text = text.replace(f"$LOAD_{name}$", _loads(words))
    widths = (("BINDING", BINDING), ("MOVE", MOVE), ("CARRY", CARRY), ("STATE", STATE),
              ("BRANCH", BRANCH))  # fmt: skip
    for name, width in widths:
        text = text.replace(f"${name}$", str(width))
    return _inlined(text)


_READ = re.compile(r"%(\S+) = call i64 @word\(ptr (\S+), i64 (\S+)\)")
_WRITE = re.compile(r"call void @set\(ptr (\S+), i64 (\S+), i64 (\S+)\)")


def _inlined(text: str) -> str:
    """`word` and `set`, which read and write a word of a table, written out at each use."""
    numbers = itertools.count()

    def read(found: re.Match[str]) -> str:
        name, row, index = found.groups()
        at = f"%{name}.word"
        return f"{at} = getelementptr i64, ptr {row}, i64 {index}\n  %{name} = load i64, ptr {at}"

    def write(found: re.Match[str]) -> str:
        row, index, value = found.groups()
        at = f"%set.{next(numbers)}"
        return f"{at} = getelementptr i64, ptr {row}, i64 {index}\n  store i64 {value}, ptr {at}"

    return _WRITE.sub(write, _READ.sub(read, text))


def _loads(words: tuple[str, ...]) -> str:
    lines = []
    for index, name in enumerate(words):
        kind = "ptr" if name in _POINTERS else "i64"
        lines.append(f"  %{name}.at = getelementptr i64, ptr %args, i64 {index}")
        lines.append(f"  %{name} = load {kind}, ptr %{name}.at")
    return "\n".join(lines)


_COMMON = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; The address of a place: a slot and an offset, or for slot -1 the offset itself.
define internal i64 @place(ptr %slots, i64 %slot, i64 %offset) alwaysinline {
entry:
  %literal = icmp slt i64 %slot, 0
  br i1 %literal, label %as.is, label %inside
inside:
  %base = call i64 @word(ptr %slots, i64 %slot)
  %sum = add i64 %base, %offset
  ret i64 %sum
as.is:
  ret i64 %offset
}

define internal i64 @place_at(ptr %slots, ptr %row, i64 %index) alwaysinline {
  %next = add i64 %index, 1
  %slot = call i64 @word(ptr %row, i64 %index)
  %offset = call i64 @word(ptr %row, i64 %next)
  %address = call i64 @place(ptr %slots, i64 %slot, i64 %offset)
  ret i64 %address
}

define internal void @bind(ptr %outer, ptr %inner, ptr %rows, i64 %count) {
entry:
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %row, label %done
row:
  %index = phi i64 [ 0, %entry ], [ %next, %row ]
  %at = getelementptr [$BINDING$ x i64], ptr %rows, i64 %index
  %slot = call i64 @word(ptr %at, i64 0)
  %address = call i64 @place_at(ptr %outer, ptr %at, i64 1)
  call void @set(ptr %inner, i64 %slot, i64 %address)
  %next = add i64 %index, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %row, label %done
done:
  ret void
}
"""

_SCAN = """
define void @scan(ptr %outer, ptr %args, i64 %lo, i64 %hi, i64 %part) {
entry:
$LOAD_SCAN$
  %inner = alloca i64, i64 %slots
  %sums = alloca i64, i64 %carried
  %threads = load atomic ptr, ptr %team monotonic, align 8
  call void @bind(ptr %outer, ptr %inner, ptr %bindings, i64 %bound)
  %any.carried = icmp sgt i64 %carried, 0
  %any.moving = icmp sgt i64 %moving, 0
  %parity = and i64 %length, 1
  %odd = icmp eq i64 %parity, 1
  br i1 %any.carried, label %start, label %step
start:
  %number = phi i64 [ 0, %entry ], [ %number.next, %start ]
  %row = getelementptr [$CARRY$ x i64], ptr %carries, i64 %number
  %last = call i64 @place_at(ptr %outer, ptr %row, i64 2)
  %other = call i64 @place_at(ptr %outer, ptr %row, i64 4)
  %sum = add i64 %last, %other
  call void @set(ptr %sums, i64 %number, i64 %sum)
  %first = select i1 %odd, i64 %last, i64 %other
  %written = call i64 @word(ptr %row, i64 1)
  call void @set(ptr %inner, i64 %written, i64 %first)
  %number.next = add i64 %number, 1
  %number.more = icmp slt i64 %number.next, %carried
  br i1 %number.more, label %start, label %step
step:
  %done.steps = phi i64 [ 0, %entry ], [ 0, %start ], [ %steps.next, %again ]
  call void %run(ptr %threads, ptr %instructions, i64 %count, ptr %inner)
  %steps.next = add i64 %done.steps, 1
  %steps.more = icmp slt i64 %steps.next, %length
  br i1 %steps.more, label %advance, label %done
advance:
  br i1 %any.moving, label %move, label %moved
move:
  %m = phi i64 [ 0, %advance ], [ %m.next, %move ]
  %m.row = getelementptr [$MOVE$ x i64], ptr %moves, i64 %m
  %m.slot = call i64 @word(ptr %m.row, i64 0)
  %m.by = call i64 @word(ptr %m.row, i64 1)
  %m.old = call i64 @word(ptr %inner, i64 %m.slot)
  %m.new = add i64 %m.old, %m.by
  call void @set(ptr %inner, i64 %m.slot, i64 %m.new)
  %m.next = add i64 %m, 1
  %m.more = icmp slt i64 %m.next, %moving
  br i1 %m.more, label %move, label %moved
moved:
  br i1 %any.carried, label %carry, label %again
carry:
  %c = phi i64 [ 0, %moved ], [ %c.next, %carry ]
  %c.row = getelementptr [$CARRY$ x i64], ptr %carries, i64 %c
  %c.in = call i64 @word(ptr %c.row, i64 0)
  %c.out = call i64 @word(ptr %c.row, i64 1)
  %c.value = call i64 @word(ptr %inner, i64 %c.out)
  %c.sum = call i64 @word(ptr %sums, i64 %c)
  %c.free = sub i64 %c.sum, %c.value
  call void @set(ptr %inner, i64 %c.in, i64 %c.value)
  call void @set(ptr %inner, i64 %c.out, i64 %c.free)
  %c.next = add i64 %c, 1
  %c.more = icmp slt i64 %c.next, %carried
  br i1 %c.more, label %carry, label %again
again:
  br label %step
done:
  ret void
}
"""

_WHILE = """
define void @repeat(ptr %outer, ptr %args, i64 %lo, i64 %hi, i64 %part) {
entry:
$LOAD_WHILE$
  %condition = alloca i64, i64 %tested.slots
  %inner = alloca i64, i64 %slots
  %sums = alloca i64, i64 %carried
  %threads = load atomic ptr, ptr %team monotonic, align 8
  call void @bind(ptr %outer, ptr %condition, ptr %tested.bindings, i64 %tested.bound)
  call void @bind(ptr %outer, ptr %inner, ptr %bindings, i64 %bound)
  %any = icmp sgt i64 %carried, 0
  br i1 %any, label %start, label %test
start:
  %number = phi i64 [ 0, %entry ], [ %number.next, %start ]
  %row = getelementptr [$STATE$ x i64], ptr %states, i64 %number
  %one = call i64 @place_at(ptr %outer, ptr %row, i64 3)
  %other = call i64 @place_at(ptr %outer, ptr %row, i64 5)
  %sum = add i64 %one, %other
  call void @set(ptr %sums, i64 %number, i64 %sum)
  %written = call i64 @word(ptr %row, i64 2)
  call void @set(ptr %inner, i64 %written, i64 %one)
  %number.next = add i64 %number, 1
  %number.more = icmp slt i64 %number.next, %carried
  br i1 %number.more, label %start, label %test
test:
  %steps = phi i64 [ 0, %entry ], [ 0, %start ], [ %steps.next, %again ]
  %bounded = icmp sge i64 %maximum, 0
  %spent = icmp sge i64 %steps, %maximum
  %enough = and i1 %bounded, %spent
  br i1 %enough, label %end, label %ask
ask:
  call void %run(ptr %threads, ptr %tests, i64 %testing, ptr %condition)
  %answer = call i64 @place(ptr %condition, i64 %answer.slot, i64 %answer.offset)
  %answer.at = inttoptr i64 %answer to ptr
  %holds = load i8, ptr %answer.at
  %goes.on = icmp ne i8 %holds, 0
  br i1 %goes.on, label %step, label %end
step:
  call void %run(ptr %threads, ptr %instructions, i64 %count, ptr %inner)
  %steps.next = add i64 %steps, 1
  br i1 %any, label %carry, label %again
carry:
  %c = phi i64 [ 0, %step ], [ %c.next, %carried.on ]
  %c.row = getelementptr [$STATE$ x i64], ptr %states, i64 %c
  %c.test = call i64 @word(ptr %c.row, i64 0)
  %c.in = call i64 @word(ptr %c.row, i64 1)
  %c.out = call i64 @word(ptr %c.row, i64 2)
  %c.value = call i64 @word(ptr %inner, i64 %c.out)
  %c.sum = call i64 @word(ptr %sums, i64 %c)
  %c.free = sub i64 %c.sum, %c.value
  call void @set(ptr %inner, i64 %c.in, i64 %c.value)
  call void @set(ptr %inner, i64 %c.out, i64 %c.free)
  %c.tested = icmp sge i64 %c.test, 0
  br i1 %c.tested, label %tell, label %carried.on
tell:
  call void @set(ptr %condition, i64 %c.test, i64 %c.value)
  br label %carried.on
carried.on:
  %c.next = add i64 %c, 1
  %c.more = icmp slt i64 %c.next, %carried
  br i1 %c.more, label %carry, label %again
again:
  br label %test
end:
  %steps.to = call i64 @place(ptr %outer, i64 %steps.slot, i64 %steps.offset)
  %steps.to.at = inttoptr i64 %steps.to to ptr
  store i64 %steps, ptr %steps.to.at
  br i1 %any, label %store, label %done
store:
  %s = phi i64 [ 0, %end ], [ %s.next, %store ]
  %s.row = getelementptr [$STATE$ x i64], ptr %states, i64 %s
  %s.in = call i64 @word(ptr %s.row, i64 1)
  %s.from = call i64 @word(ptr %inner, i64 %s.in)
  %s.to = call i64 @place_at(ptr %outer, ptr %s.row, i64 7)
  %s.bytes = call i64 @word(ptr %s.row, i64 9)
  %s.from.at = inttoptr i64 %s.from to ptr
  %s.to.at = inttoptr i64 %s.to to ptr
  call void @llvm.memcpy.p0.p0.i64(ptr %s.to.at, ptr %s.from.at, i64 %s.bytes, i1 false)
  %s.next = add i64 %s, 1
  %s.more = icmp slt i64 %s.next, %carried
  br i1 %s.more, label %store, label %done
done:
  ret void
}
"""

_BRANCH = """
define void @choose(ptr %outer, ptr %args, i64 %lo, i64 %hi, i64 %part) {
entry:
$LOAD_BRANCH$
  %threads = load atomic ptr, ptr %team monotonic, align 8
  %index.place = call i64 @place(ptr %outer, i64 %index.slot, i64 %index.offset)
  %index.place.at = inttoptr i64 %index.place to ptr
  %index = load i64, ptr %index.place.at
  %most = sub i64 %choices, 1
  %high = icmp sgt i64 %index, %most
  %below = select i1 %high, i64 %most, i64 %index
  %low = icmp slt i64 %below, 0
  %chosen = select i1 %low, i64 0, i64 %below
  %row = getelementptr [$BRANCH$ x i64], ptr %branches, i64 %chosen
  %instructions = load ptr, ptr %row
  %count = call i64 @word(ptr %row, i64 1)
  %slots = call i64 @word(ptr %row, i64 2)
  %bindings.at = getelementptr i64, ptr %row, i64 3
  %bindings = load ptr, ptr %bindings.at
  %bound = call i64 @word(ptr %row, i64 4)
  %inner = alloca i64, i64 %slots
  call void @bind(ptr %outer, ptr %inner, ptr %bindings, i64 %bound)
  call void %run(ptr %threads, ptr %instructions, i64 %count, ptr %inner)
  ret void
}
"""
