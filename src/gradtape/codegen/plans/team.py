"""The thread team and the plan interpreter as IR, and the layout they share with Python.

A kernel is `void kernel(ptr slots, ptr args, i64 lo, i64 hi, i64 part)`. A plan is an array of
instructions of eight words: function, args, total, grain, parallel, and three that are zero.
`run_plan` runs them in one native call; a parallel instruction is shared by the team.

Each worker has one word of state, alone on its cache lines:

    idle -> posted -> claimed -> idle      work is posted by the caller, claimed by the worker
    posted -> idle                         the caller takes back what nobody has claimed yet
    idle -> asleep                         the worker has spun long enough and waits in the kernel
    claimed -> awaited                     the caller has, too
    any -> leaving                         the team is retired

Taking back means that a worker which sleeps or is not scheduled never holds up a short
instruction: the caller does that part itself. Every transition is one atomic operation on that
word, and whoever replaces `asleep` or `awaited` wakes the sleeper, so no wake-up is lost.

On a busy machine Linux likes to wake a worker on the caller's own processor, where it would push
the caller aside. A worker that finds itself there excludes that processor from its affinity.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gradtape.codegen.plans.waiting import waiting_ir

WORDS = 8

# Bytes. Two cache lines apart: processors fetch lines in pairs.
LINE = 128
READY = 1 * LINE
SPINS = READY + 8
JOB = 2 * LINE
SHARED = JOB + 48
TAKEN_BACK = JOB + 56
PROCESSOR = JOB + 64
STATES = 3 * LINE

_STATES = {"IDLE": 0, "POSTED": 1, "CLAIMED": 2, "ASLEEP": 3, "AWAITED": 4, "LEAVING": 5}


@dataclass(frozen=True)
class Instruction:
    """One step of a plan: a kernel, its constants, and how its range may be cut.

    The range [0, total) is cut at multiples of `grain`, into at most one part per thread.
    """

    function: int
    arguments: Sequence[int]
    total: int
    grain: int = 1
    parallel: bool = False


class Instructions:
    """Instructions as `run_plan` reads them. Must live while they may run."""

    __slots__ = ("_arguments", "_words", "address", "count", "parallel")

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self.count = len(instructions)
        self.parallel = any(each.parallel for each in instructions)
        sizes = [len(each.arguments) for each in instructions]
        self._arguments = (ctypes.c_int64 * sum(sizes))()
        self._words = (ctypes.c_int64 * (WORDS * self.count))()
        self.address = ctypes.addressof(self._words)
        start = 0
        for index, (each, size) in enumerate(zip(instructions, sizes, strict=True)):
            self._arguments[start : start + size] = list(each.arguments)
            self._words[index * WORDS : index * WORDS + 5] = [
                each.function,
                ctypes.addressof(self._arguments) + 8 * start,
                each.total,
                max(each.grain, 1),
                int(each.parallel),
            ]
            start += size


def team_bytes(workers: int) -> int:
    """The size of the memory a team of so many workers shares."""
    return STATES + max(workers, 1) * LINE


def team_ir(machine: str | None = None, system: str | None = None) -> str:
    """The module that holds `run_plan`, `worker`, `retire` and `spin`."""
    text = waiting_ir(machine or platform.machine(), system or sys.platform) + _TEAM
    constants: dict[str, Any] = {
        **_STATES,
        "AT_READY": READY,
        "AT_SPINS": SPINS,
        "AT_JOB": JOB,
        "AT_SHARED": SHARED,
        "AT_TAKEN_BACK": TAKEN_BACK,
        "AT_PROCESSOR": PROCESSOR,
        "AT_STATES": STATES,
        "LINE_BYTES": LINE,
    }
    for name, value in constants.items():
        text = text.replace(f"${name}$", str(value))
    return text


_TEAM = """
%job = type { ptr, ptr, ptr, i64, i64, i64 }

define internal ptr @state_of(ptr %team, i64 %part) alwaysinline {
  %before = sub i64 %part, 1
  %bytes = mul i64 %before, $LINE_BYTES$
  %offset = add i64 %bytes, $AT_STATES$
  %state = getelementptr i8, ptr %team, i64 %offset
  ret ptr %state
}

define internal void @run_part(ptr %team, i64 %part) noinline {
  %job = getelementptr i8, ptr %team, i64 $AT_JOB$
  %function = load ptr, ptr %job
  %slots.at = getelementptr %job, ptr %job, i32 0, i32 1
  %slots = load ptr, ptr %slots.at
  %args.at = getelementptr %job, ptr %job, i32 0, i32 2
  %args = load ptr, ptr %args.at
  %total.at = getelementptr %job, ptr %job, i32 0, i32 3
  %total = load i64, ptr %total.at
  %grain.at = getelementptr %job, ptr %job, i32 0, i32 4
  %grain = load i64, ptr %grain.at
  %parts.at = getelementptr %job, ptr %job, i32 0, i32 5
  %parts = load i64, ptr %parts.at
  %padded = add i64 %total, %grain
  %less = sub i64 %padded, 1
  %units = udiv i64 %less, %grain
  %next = add i64 %part, 1
  %lo.product = mul i64 %units, %part
  %lo.unit = udiv i64 %lo.product, %parts
  %lo = mul i64 %lo.unit, %grain
  %hi.product = mul i64 %units, %next
  %hi.unit = udiv i64 %hi.product, %parts
  %hi.rounded = mul i64 %hi.unit, %grain
  %hi.inside = icmp ult i64 %hi.rounded, %total
  %hi = select i1 %hi.inside, i64 %hi.rounded, i64 %total
  call void %function(ptr %slots, ptr %args, i64 %lo, i64 %hi, i64 %part)
  ret void
}

define internal void @post(ptr %state, i32 %value) {
entry:
  %old = atomicrmw xchg ptr %state, i32 %value acq_rel
  %asleep = icmp eq i32 %old, $ASLEEP$
  br i1 %asleep, label %rouse, label %done
rouse:
  call void @wake(ptr %state)
  br label %done
done:
  ret void
}

define internal void @await(ptr %state, i64 %spins) {
entry:
  br label %look
look:
  %left = phi i64 [ %spins, %entry ], [ %less, %again ]
  %value = load atomic i32, ptr %state acquire, align 4
  %working = icmp eq i32 %value, $CLAIMED$
  br i1 %working, label %spin, label %done
spin:
  call void @pause()
  %less = sub i64 %left, 1
  %spent = icmp sle i64 %less, 0
  br i1 %spent, label %doze, label %again
again:
  br label %look
doze:
  %swap = cmpxchg ptr %state, i32 $CLAIMED$, i32 $AWAITED$ acq_rel acquire
  %swapped = extractvalue { i32, i1 } %swap, 1
  br i1 %swapped, label %sleep, label %done
sleep:
  call void @wait_while(ptr %state, i32 $AWAITED$)
  %now = load atomic i32, ptr %state acquire, align 4
  %still = icmp eq i32 %now, $AWAITED$
  br i1 %still, label %sleep, label %done
done:
  ret void
}

define internal void @share(ptr %team, ptr %function, ptr %slots, ptr %args,
                            i64 %total, i64 %grain) {
entry:
  %ready.at = getelementptr i8, ptr %team, i64 $AT_READY$
  %ready = load atomic i64, ptr %ready.at acquire, align 8
  %threads = add i64 %ready, 1
  %padded = add i64 %total, %grain
  %less = sub i64 %padded, 1
  %units = udiv i64 %less, %grain
  %few = icmp ult i64 %units, %threads
  %parts = select i1 %few, i64 %units, i64 %threads
  %alone = icmp ult i64 %parts, 2
  br i1 %alone, label %serial, label %parallel
serial:
  call void %function(ptr %slots, ptr %args, i64 0, i64 %total, i64 0)
  ret void
parallel:
  %job = getelementptr i8, ptr %team, i64 $AT_JOB$
  store ptr %function, ptr %job
  %slots.at = getelementptr %job, ptr %job, i32 0, i32 1
  store ptr %slots, ptr %slots.at
  %args.at = getelementptr %job, ptr %job, i32 0, i32 2
  store ptr %args, ptr %args.at
  %total.at = getelementptr %job, ptr %job, i32 0, i32 3
  store i64 %total, ptr %total.at
  %grain.at = getelementptr %job, ptr %job, i32 0, i32 4
  store i64 %grain, ptr %grain.at
  %parts.at = getelementptr %job, ptr %job, i32 0, i32 5
  store i64 %parts, ptr %parts.at
  %shared.at = getelementptr i8, ptr %team, i64 $AT_SHARED$
  %shared = load i64, ptr %shared.at
  %shared.more = add i64 %shared, 1
  store i64 %shared.more, ptr %shared.at
  %here.at = getelementptr i8, ptr %team, i64 $AT_PROCESSOR$
  %here = call i64 @processor()
  store atomic i64 %here, ptr %here.at monotonic, align 8
  %taken.at = getelementptr i8, ptr %team, i64 $AT_TAKEN_BACK$
  %spins.at = getelementptr i8, ptr %team, i64 $AT_SPINS$
  %spins = load i64, ptr %spins.at
  br label %posting
posting:
  %post.part = phi i64 [ 1, %parallel ], [ %post.next, %posting ]
  %post.state = call ptr @state_of(ptr %team, i64 %post.part)
  call void @post(ptr %post.state, i32 $POSTED$)
  %post.next = add i64 %post.part, 1
  %post.more = icmp ult i64 %post.next, %parts
  br i1 %post.more, label %posting, label %own
own:
  call void @run_part(ptr %team, i64 0)
  br label %taking
taking:
  %take.part = phi i64 [ 1, %own ], [ %take.next, %taken ]
  %take.state = call ptr @state_of(ptr %team, i64 %take.part)
  %swap = cmpxchg ptr %take.state, i32 $POSTED$, i32 $IDLE$ acq_rel acquire
  %unclaimed = extractvalue { i32, i1 } %swap, 1
  br i1 %unclaimed, label %take, label %taken
take:
  %count = load i64, ptr %taken.at
  %count.more = add i64 %count, 1
  store i64 %count.more, ptr %taken.at
  call void @run_part(ptr %team, i64 %take.part)
  br label %taken
taken:
  %take.next = add i64 %take.part, 1
  %take.more = icmp ult i64 %take.next, %parts
  br i1 %take.more, label %taking, label %joining
joining:
  %join.part = phi i64 [ 1, %taken ], [ %join.next, %joining ]
  %join.state = call ptr @state_of(ptr %team, i64 %join.part)
  call void @await(ptr %join.state, i64 %spins)
  %join.next = add i64 %join.part, 1
  %join.more = icmp ult i64 %join.next, %parts
  br i1 %join.more, label %joining, label %done
done:
  ret void
}

define void @run_plan(ptr %team, ptr %instructions, i64 %count, ptr %slots) {
entry:
  %some = icmp sgt i64 %count, 0
  %team.none = icmp eq ptr %team, null
  br i1 %some, label %step, label %done
step:
  %index = phi i64 [ 0, %entry ], [ %index.next, %after ]
  %at = getelementptr [8 x i64], ptr %instructions, i64 %index
  %function = load ptr, ptr %at
  %args.at = getelementptr i64, ptr %at, i64 1
  %args = load ptr, ptr %args.at
  %total.at = getelementptr i64, ptr %at, i64 2
  %total = load i64, ptr %total.at
  %grain.at = getelementptr i64, ptr %at, i64 3
  %grain = load i64, ptr %grain.at
  %parallel.at = getelementptr i64, ptr %at, i64 4
  %parallel = load i64, ptr %parallel.at
  %not.parallel = icmp eq i64 %parallel, 0
  %never = or i1 %not.parallel, %team.none
  br i1 %never, label %serial, label %ask
ask:
  ; Looking first keeps the line shared while another thread has the team.
  %owner = load atomic i32, ptr %team monotonic, align 4
  %taken = icmp ne i32 %owner, 0
  br i1 %taken, label %serial, label %try
try:
  %swap = cmpxchg ptr %team, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %swap, 1
  br i1 %mine, label %together, label %serial
together:
  call void @share(ptr %team, ptr %function, ptr %slots, ptr %args, i64 %total, i64 %grain)
  store atomic i32 0, ptr %team release, align 4
  br label %after
serial:
  call void %function(ptr %slots, ptr %args, i64 0, i64 %total, i64 0)
  br label %after
after:
  %index.next = add i64 %index, 1
  %more = icmp slt i64 %index.next, %count
  br i1 %more, label %step, label %done
done:
  ret void
}

define void @worker(ptr %team) {
entry:
  %avoided = alloca i64
  store i64 -1, ptr %avoided
  %mask = alloca [128 x i64]
  %ready.at = getelementptr i8, ptr %team, i64 $AT_READY$
  %spins.at = getelementptr i8, ptr %team, i64 $AT_SPINS$
  %caller.at = getelementptr i8, ptr %team, i64 $AT_PROCESSOR$
  %spins = load i64, ptr %spins.at
  %before = atomicrmw add ptr %ready.at, i64 1 acq_rel
  %part = add i64 %before, 1
  %state = call ptr @state_of(ptr %team, i64 %part)
  br label %fresh
fresh:
  br label %look
look:
  %left = phi i64 [ %spins, %fresh ], [ %less, %again ]
  %value = load atomic i32, ptr %state acquire, align 4
  switch i32 %value, label %spin [ i32 $POSTED$, label %compare
                                   i32 $LEAVING$, label %leave ]
spin:
  call void @pause()
  %less = sub i64 %left, 1
  %spent = icmp sle i64 %less, 0
  br i1 %spent, label %doze, label %again
again:
  br label %look
doze:
  %swap = cmpxchg ptr %state, i32 $IDLE$, i32 $ASLEEP$ acq_rel acquire
  %swapped = extractvalue { i32, i1 } %swap, 1
  br i1 %swapped, label %sleep, label %fresh
sleep:
  call void @wait_while(ptr %state, i32 $ASLEEP$)
  %now = load atomic i32, ptr %state acquire, align 4
  %still = icmp eq i32 %now, $ASLEEP$
  br i1 %still, label %sleep, label %fresh
compare:
  %here = call i64 @processor()
  %caller = load atomic i64, ptr %caller.at monotonic, align 8
  %known = icmp sge i64 %here, 0
  %same = icmp eq i64 %here, %caller
  %avoided.already = load i64, ptr %avoided
  ; Still here after avoiding it: the number means nothing on this system.
  %new = icmp ne i64 %here, %avoided.already
  %beside.0 = and i1 %known, %same
  %beside = and i1 %beside.0, %new
  br i1 %beside, label %move, label %claim
move:
  call void @avoid(i64 %here, ptr %avoided, ptr %mask)
  br label %claim
claim:
  %claim.swap = cmpxchg ptr %state, i32 $POSTED$, i32 $CLAIMED$ acq_rel acquire
  %claimed = extractvalue { i32, i1 } %claim.swap, 1
  br i1 %claimed, label %work, label %fresh
work:
  call void @run_part(ptr %team, i64 %part)
  %old = atomicrmw xchg ptr %state, i32 $IDLE$ acq_rel
  %awaited = icmp eq i32 %old, $AWAITED$
  br i1 %awaited, label %rouse, label %fresh
rouse:
  call void @wake(ptr %state)
  br label %fresh
leave:
  ret void
}

; The owner's word stays taken: who still holds the address of this team runs serially.
define void @retire(ptr %team, i64 %workers) {
entry:
  br label %ask
ask:
  %swap = cmpxchg ptr %team, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %swap, 1
  br i1 %mine, label %begin, label %spin
spin:
  call void @pause()
  br label %ask
begin:
  %some = icmp sgt i64 %workers, 0
  br i1 %some, label %telling, label %done
telling:
  %part = phi i64 [ 1, %begin ], [ %next, %telling ]
  %state = call ptr @state_of(ptr %team, i64 %part)
  call void @post(ptr %state, i32 $LEAVING$)
  %next = add i64 %part, 1
  %more = icmp sle i64 %next, %workers
  br i1 %more, label %telling, label %done
done:
  ret void
}

; As many looks as a worker takes, to find out how long one lasts here.
define void @spin(ptr %word, i64 %count) {
entry:
  br label %look
look:
  %left = phi i64 [ %count, %entry ], [ %less, %look ]
  %value = load atomic i32, ptr %word acquire, align 4
  call void @pause()
  %less = sub i64 %left, 1
  %more = icmp sgt i64 %less, 0
  br i1 %more, label %look, label %done
done:
  ret void
}
"""
