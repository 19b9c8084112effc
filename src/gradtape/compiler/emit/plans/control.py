"""Loops and branches as kernels: the IR that runs the instructions of a body again and again.

Each is a kernel like any other, so bodies may hold loops and branches themselves. A body has slots
of its own. *Bindings* fill them from the slots of the plan around it. After each step of a loop,
slots are moved on: by a constant for an element of a sequence or a row of a result, and from one of
two buffers to the other for a carried value.

The args of each kernel begin with the address of `run_plan` and of the word that holds the team. A
loop also has the address of `poll`, and how often it looks for signals: after each round whose
number has all bits of `rounds`. It ends when an interrupt stops a body.
"""

from __future__ import annotations

from collections.abc import Mapping

from gradtape.compiler.emit.plans.instructions import kernel_routine
from gradtape.compiler.emit.writer import Routine, Word

# Words of a row of each table. A place is two words: a slot and an offset in bytes, or `LITERAL`
# and an address.
LITERAL = -1
BINDING = 3  # slot of the body; place around it
MOVE = 2  # slot, bytes to move on
CARRY = 6  # slot read, slot written; places of two buffers, first that of the last step's result
STATE = 10  # slot of the condition or -1; slots and buffers as in CARRY; place of the result, bytes
BRANCH = 5  # see BODY_WORDS

# How a body is described: in the args of a kernel, and as a row of the table of branches.
BODY_WORDS = ("instructions", "count", "slots", "bindings", "bound")
_TESTED = tuple(f"tested.{name}" for name in BODY_WORDS)
SCAN_WORDS = (
    "run",
    "team",
    "poll",
    "rounds",
    *BODY_WORDS,
    "length",
    "moves",
    "moving",
    "carries",
    "carried",
)
WHILE_WORDS = (
    "run",
    "team",
    "poll",
    "rounds",
    *_TESTED,
    *BODY_WORDS,
    "answer.slot",
    "answer.offset",
    "maximum",
    "steps.slot",
    "steps.offset",
    "states",
    "carried",
)
BRANCH_WORDS = ("run", "team", "index.slot", "index.offset", "branches", "choices")
_POINTERS = {
    "run",
    "team",
    "poll",
    "instructions",
    "bindings",
    "moves",
    "carries",
    "tested.instructions",
    "tested.bindings",
    "states",
    "branches",
}


def control_ir() -> str:
    """The module with `scan`, `repeat` (while) and `choose` (branch)."""
    declaration = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n"
    return "\n".join([declaration, _place(), _bind(), _scan(), _repeat(), _choose()])


def _place() -> str:
    """The address of a place."""
    r = Routine("internal i64 @place(ptr %slots, i64 %slot, i64 %offset)")
    with r.when(r.compare("slt", "%slot", 0)):
        r.end("ret i64 %offset")
    r.end(f"ret i64 {r.add(_slot(r, '%slots', '%slot'), '%offset')}")
    return r.text()


def _bind() -> str:
    """Fill the slots of a body by a table of bindings."""
    r = Routine("internal void @bind(ptr %outer, ptr %inner, ptr %rows, i64 %count)")
    with r.loop("%count") as index:
        row = r.row("%rows", index, BINDING)
        _set_slot(r, "%inner", r.word(row), _place_in(r, "%outer", row, 1))
    r.end("ret void")
    return r.text()


def _slot(r: Routine, slots: str, number: str) -> str:
    return r.word(slots, r.scaled(number))


def _set_slot(r: Routine, slots: str, number: str, address: str) -> None:
    r.put(slots, r.scaled(number), address)


def _address(r: Routine, slots: str, slot: Word, offset: Word) -> str:
    return r.call("i64", "@place", f"ptr {slots}", f"i64 {slot}", f"i64 {offset}")


def _place_in(r: Routine, slots: str, row: str, word: int) -> str:
    """The address of the place that begins at a word of a row."""
    return _address(r, slots, r.word(row, 8 * word), r.word(row, 8 * word + 8))


def _as_pointer(r: Routine, address: str) -> str:
    return r.let(f"inttoptr i64 {address} to ptr")


def _new_slots(r: Routine, words: Mapping[str, str], prefix: str = "") -> str:
    """Slots of a body on the stack, bound to the plan around it."""
    inner = r.let(f"alloca i64, i64 {words[f'{prefix}slots']}")
    bindings, bound = words[f"{prefix}bindings"], words[f"{prefix}bound"]
    r.do("@bind", "ptr %slots", f"ptr {inner}", f"ptr {bindings}", f"i64 {bound}")
    return inner


def _team(r: Routine, words: Mapping[str, str]) -> str:
    return r.let(f"load atomic ptr, ptr {words['team']} monotonic, align 8")


def _run_body(r: Routine, run: str, team: str, instructions: str, count: str, slots: str) -> str:
    """Run the instructions of a body; whether an interrupt has stopped them."""
    arguments = (f"ptr {team}", f"ptr {instructions}", f"i64 {count}", f"ptr {slots}")
    return r.unequal(r.call("i64", run, *arguments), 0)


def _look_for_signals(r: Routine, words: Mapping[str, str], step: str) -> None:
    looked_at = r.let(f"and i64 {step}, {words['rounds']}")
    with r.when(r.equal(looked_at, words["rounds"])):
        r.go_if(r.unequal(r.call("i64", words["poll"]), 0), "stop")


def _exchange(r: Routine, inner: str, total: str, read: str, written: str) -> str:
    """Let the next step read the buffer that this step wrote, and write to the other one.

    `total` is the sum of the addresses of both buffers, so the other one is a difference.
    """
    value = _slot(r, inner, written)
    _set_slot(r, inner, read, value)
    _set_slot(r, inner, written, r.subtract(total, value))
    return value


def _scan() -> str:
    """A loop of known length over elements of sequences, with carried values."""
    r = kernel_routine("scan")
    words = r.words("%args", SCAN_WORDS, _POINTERS)
    length, carried = words["length"], words["carried"]
    totals = r.let(f"alloca i64, i64 {carried}")
    team, inner = _team(r, words), _new_slots(r, words)
    odd = r.unequal(r.let(f"and i64 {length}, 1"), 0)
    with r.loop(carried) as number:
        row = r.row(words["carries"], number, CARRY)
        last, other = (_place_in(r, "%slots", row, word) for word in (2, 4))
        _set_slot(r, totals, number, r.add(last, other))
        # Steps alternate between the buffers, and the last one must write to its own.
        _set_slot(r, inner, r.word(row, 8), r.select(odd, last, other))
    with r.loop(length) as step:
        body = (words["run"], team, words["instructions"], words["count"], inner)
        r.go_if(_run_body(r, *body), "stop")
        _look_for_signals(r, words, step)
        r.go_if(r.equal(r.add(step, 1), length), "done")
        with r.loop(words["moving"]) as number:
            row = r.row(words["moves"], number, MOVE)
            slot = r.word(row)
            _set_slot(r, inner, slot, r.add(_slot(r, inner, slot), r.word(row, 8)))
        with r.loop(carried) as number:
            row = r.row(words["carries"], number, CARRY)
            _exchange(r, inner, _slot(r, totals, number), r.word(row), r.word(row, 8))
    r.block("done")
    r.go("stop")
    r.block("stop")
    r.end("ret void")
    return r.text()


def _repeat() -> str:
    """A loop that runs while its condition holds, and at most `maximum` steps if that is not -1."""
    r = kernel_routine("repeat")
    words = r.words("%args", WHILE_WORDS, _POINTERS)
    maximum, carried = words["maximum"], words["carried"]
    totals = r.let(f"alloca i64, i64 {carried}")
    team = _team(r, words)
    condition, inner = _new_slots(r, words, "tested."), _new_slots(r, words)
    with r.loop(carried) as number:
        row = r.row(words["states"], number, STATE)
        one, other = (_place_in(r, "%slots", row, word) for word in (3, 5))
        _set_slot(r, totals, number, r.add(one, other))
        _set_slot(r, inner, r.word(row, 16), one)
    before = r.here
    r.block("test")
    r.line(f"%steps = phi i64 [ 0, %{before} ], [ %steps.next, %again ]")
    bounded, spent = r.compare("sge", maximum, 0), r.compare("sge", "%steps", maximum)
    r.go_if(r.both(bounded, spent), "finish")
    test = (words["run"], team, words["tested.instructions"], words["tested.count"], condition)
    r.go_if(_run_body(r, *test), "stop")
    answer = _address(r, condition, words["answer.slot"], words["answer.offset"])
    holds = r.let(f"load i8, ptr {_as_pointer(r, answer)}")
    r.go_if(r.compare("eq", holds, 0, "i8"), "finish")
    body = (words["run"], team, words["instructions"], words["count"], inner)
    r.go_if(_run_body(r, *body), "stop")
    _look_for_signals(r, words, "%steps")
    with r.loop(carried) as number:
        row = r.row(words["states"], number, STATE)
        tested, total = r.word(row), _slot(r, totals, number)
        value = _exchange(r, inner, total, r.word(row, 8), r.word(row, 16))
        with r.when(r.compare("sge", tested, 0)):
            _set_slot(r, condition, tested, value)
    r.block("again")
    r.line("%steps.next = add i64 %steps, 1")
    r.go("test")
    r.block("finish")
    steps_at = _address(r, "%slots", words["steps.slot"], words["steps.offset"])
    r.put(_as_pointer(r, steps_at), 0, "%steps")
    with r.loop(carried) as number:
        row = r.row(words["states"], number, STATE)
        source, target = _slot(r, inner, r.word(row, 8)), _place_in(r, "%slots", row, 7)
        places = [f"ptr {_as_pointer(r, address)}" for address in (target, source)]
        r.do("@llvm.memcpy.p0.p0.i64", *places, f"i64 {r.word(row, 72)}", "i1 false")
    r.block("stop")
    r.end("ret void")
    return r.text()


def _choose() -> str:
    """One of several bodies, by an index that is clamped to their range."""
    r = kernel_routine("choose")
    words = r.words("%args", BRANCH_WORDS, _POINTERS)
    place = _address(r, "%slots", words["index.slot"], words["index.offset"])
    index, most = r.word(_as_pointer(r, place)), r.subtract(words["choices"], 1)
    below = r.select(r.compare("sgt", index, most), most, index)
    chosen = r.select(r.compare("slt", below, 0), 0, below)
    row = r.row(words["branches"], chosen, BRANCH)
    body = r.words(row, BODY_WORDS, _POINTERS)
    team, inner = _team(r, words), _new_slots(r, body)
    _run_body(r, words["run"], team, body["instructions"], body["count"], inner)
    r.end("ret void")
    return r.text()
