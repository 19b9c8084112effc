"""How a thread waits, and where it runs, as IR: by processor and operating system.

The module text has `pause` between two looks at a word, `wait_while` to sleep while a word has a
value, `wake` to end that, `processor` for the number of the one the thread runs on (negative:
unknown), and `avoid` to keep the thread away from one.
"""

from __future__ import annotations

# The number of the futex system call.
_FUTEX = {"x86_64": 202, "aarch64": 98}


def waiting_ir(machine: str, system: str) -> str:
    """The functions above for one platform."""
    pause = _PAUSE.get(machine, _NO_PAUSE)
    if system.startswith("linux") and machine in _FUTEX:
        return pause + _FUTEX_WAIT.replace("$NUMBER$", str(_FUTEX[machine])) + _PROCESSORS
    nap = _NAP_WINDOWS if system == "win32" else _NAP_POSIX
    return pause + _NAP + nap + _ANY_PROCESSOR


_NO_PAUSE = """
define internal void @pause() alwaysinline {
  ret void
}
"""

_PAUSE = {
    "x86_64": """
declare void @llvm.x86.sse2.pause()
define internal void @pause() alwaysinline {
  call void @llvm.x86.sse2.pause()
  ret void
}
""",
    # An instruction barrier waits about as long as x86's pause; `yield` hardly waits at all.
    "aarch64": """
declare void @llvm.aarch64.isb(i32)
define internal void @pause() alwaysinline {
  call void @llvm.aarch64.isb(i32 15)
  ret void
}
""",
}
_PAUSE["AMD64"] = _PAUSE["x86_64"]
_PAUSE["arm64"] = _PAUSE["aarch64"]

# 128 and 129: wait and wake, within this process. A wait may end early; callers look again.
_FUTEX_WAIT = """
declare i64 @syscall(i64, ...)
define internal void @wait_while(ptr %word, i32 %value) noinline {
  %ignored = call i64 (i64, ...) @syscall(i64 $NUMBER$, ptr %word, i32 128, i32 %value,
                                          ptr null, ptr null, i32 0)
  ret void
}
define internal void @wake(ptr %word) noinline {
  %ignored = call i64 (i64, ...) @syscall(i64 $NUMBER$, ptr %word, i32 129, i32 1,
                                          ptr null, ptr null, i32 0)
  ret void
}
"""

# The mask is read first, so that it follows what others do to the affinity of this thread.
_PROCESSORS = """
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal i64 @processor() {
  %number = call i32 @sched_getcpu()
  %wide = sext i32 %number to i64
  ret i64 %wide
}

define internal void @avoid(i64 %number, ptr %avoided, ptr %mask) noinline {
entry:
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 1024, i1 false)
  %failed = call i32 @sched_getaffinity(i32 0, i64 1024, ptr %mask)
  %fine = icmp eq i32 %failed, 0
  br i1 %fine, label %change, label %done
change:
  %old = load i64, ptr %avoided
  %some = icmp sge i64 %old, 0
  %old.number = select i1 %some, i64 %old, i64 %number
  %old.word = lshr i64 %old.number, 6
  %old.at = getelementptr i64, ptr %mask, i64 %old.word
  %old.shift = and i64 %old.number, 63
  %old.bit = shl i64 1, %old.shift
  %old.bits = load i64, ptr %old.at
  %old.set = or i64 %old.bits, %old.bit
  store i64 %old.set, ptr %old.at
  %word = lshr i64 %number, 6
  %at = getelementptr i64, ptr %mask, i64 %word
  %shift = and i64 %number, 63
  %bit = shl i64 1, %shift
  %others = xor i64 %bit, -1
  %bits = load i64, ptr %at
  %cleared = and i64 %bits, %others
  store i64 %cleared, ptr %at
  %refused = call i32 @sched_setaffinity(i32 0, i64 1024, ptr %mask)
  %moved = icmp eq i32 %refused, 0
  br i1 %moved, label %note, label %done
note:
  store i64 %number, ptr %avoided
  br label %done
done:
  ret void
}
"""

_ANY_PROCESSOR = """
define internal i64 @processor() alwaysinline {
  ret i64 -1
}
define internal void @avoid(i64 %number, ptr %avoided, ptr %mask) alwaysinline {
  ret void
}
"""

# Without futexes a sleeper looks again from time to time, and need not be woken.
_NAP = """
define internal void @wait_while(ptr %word, i32 %value) noinline {
  call void @nap()
  ret void
}
define internal void @wake(ptr %word) {
  ret void
}
"""

_NAP_POSIX = """
declare i32 @usleep(i32)
define internal void @nap() {
  %ignored = call i32 @usleep(i32 100)
  ret void
}
"""

_NAP_WINDOWS = """
declare void @Sleep(i32)
define internal void @nap() {
  call void @Sleep(i32 1)
  ret void
}
"""
