"""Loops and branches as kernels: the IR that runs the instructions of a body again and again.

Each is a kernel like any other, so bodies may hold loops and branches themselves. A body has slots
of its own. *Bindings* fill them from the slots of the plan around it. After each step of a loop,
slots are moved on: by a constant for an element of a sequence or a row of a result, and from one of
two buffers to the other for a carried value.

The args of each kernel begin with the address of `run_plan` and of the word that holds the team. A
loop also has the address of `poll`, and how often it checks for signals: after each round whose
number has all bits of `rounds`. It ends when an interrupt stops a body.
"""

from __future__ import annotations

from collections.abc import Mapping

from gradtape.compiler.emit.plans.instructions import kernel_routine
from gradtape.compiler.emit.writer import Routine, Word, module

# Words of a row of each table. A place is two words: a slot and an offset in bytes, or `LITERAL`
# and an address.
LITERAL = -1
BINDING = 3  # slot of the body; place around it
MOVE = 2  # slot, bytes to move on
CARRY = 6  # slot read, slot written; places of two buffers, first that of the last step's result
STATE = 10  # slot of the condition or -1; slots and buffers as in CARRY; place of the result, bytes
BRANCH = 5  # see BODY_WORDS

# The description of a body: in the args of a kernel, and as a row of the table of branches.
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
    "condition.slot",
    "condition.offset",
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
    return module(_place(), _bind(), _scan(), _repeat(), _choose())


def _place() -> Routine:
    """The address of a place."""
    r = Routine("internal i64 @place(ptr %slots, i64 %slot, i64 %offset)")
    r.give_if(r.compare("slt", "%slot", 0), "%offset")
    r.give(r.add(_slot(r, "%slots", "%slot"), "%offset"))
    return r


def _bind() -> Routine:
    """Fill the slots of a body by a table of bindings."""
    r = Routine("internal void @bind(ptr %outer, ptr %inner, ptr %rows, i64 %count)")
    with r.loop("%count") as index:
        row = r.row("%rows", index, BINDING)
        _set_slot(r, "%inner", r.word(row), _place_in(r, "%outer", row, 1))
    return r


def _slot(r: Routine, slots: str, number: str) -> str:
    return r.word(slots, r.scaled(number))


def _set_slot(r: Routine, slots: str, number: str, address: str) -> None:
    r.put(slots, r.scaled(number), address)


def _address(r: Routine, slots: str, slot: Word, offset: Word) -> str:
    return r.call("i64", "@place", slots, slot, offset)


def _place_in(r: Routine, slots: str, row: str, word: int) -> str:
    """The address of the place that begins at a word of a row."""
    return _address(r, slots, r.word(row, 8 * word), r.word(row, 8 * word + 8))


def _new_slots(r: Routine, words: Mapping[str, str], prefix: str = "") -> str:
    """Slots of a body on the stack, bound to the plan around it."""
    inner = r.alloca(count=words[f"{prefix}slots"])
    r.do("@bind", "%slots", inner, words[f"{prefix}bindings"], words[f"{prefix}bound"])
    return inner


def _team(r: Routine, words: Mapping[str, str]) -> str:
    return r.load_shared(words["team"], "ptr")


def _run_body(r: Routine, run: str, team: str, instructions: str, count: str, slots: str) -> str:
    """Run the instructions of a body; whether an interrupt has stopped them."""
    return r.unequal(r.call("i64", run, team, instructions, count, slots), 0)


def _check_signals(r: Routine, words: Mapping[str, str], step: str) -> None:
    with r.when(r.equal(r.op("and", step, words["rounds"]), words["rounds"])):
        r.go_if(r.unequal(r.call("i64", words["poll"]), 0), "stop")


def _exchange(r: Routine, inner: str, total: str, read: str, written: str) -> str:
    """Let the next step read the buffer that this step wrote, and write to the other one.

    `total` is the sum of the addresses of both buffers, so the other one is a difference.
    """
    value = _slot(r, inner, written)
    _set_slot(r, inner, read, value)
    _set_slot(r, inner, written, r.subtract(total, value))
    return value


def _scan() -> Routine:
    """A loop of known length over elements of sequences, with carried values."""
    r = kernel_routine("scan")
    words = r.words("%args", SCAN_WORDS, _POINTERS)
    length, carried = words["length"], words["carried"]
    totals = r.alloca(count=carried)
    team, inner = _team(r, words), _new_slots(r, words)
    odd = r.unequal(r.op("and", length, 1), 0)
    with r.loop(carried) as number:
        row = r.row(words["carries"], number, CARRY)
        last, other = (_place_in(r, "%slots", row, word) for word in (2, 4))
        _set_slot(r, totals, number, r.add(last, other))
        # Steps alternate between the buffers, and the last one must write to its own.
        _set_slot(r, inner, r.word(row, 8), r.select(odd, last, other))
    with r.loop(length) as step:
        body = (words["run"], team, words["instructions"], words["count"], inner)
        r.go_if(_run_body(r, *body), "stop")
        _check_signals(r, words, step)
        r.go_if(r.equal(r.add(step, 1), length), "done")
        with r.loop(words["moving"]) as number:
            row = r.row(words["moves"], number, MOVE)
            slot = r.word(row)
            _set_slot(r, inner, slot, r.add(_slot(r, inner, slot), r.word(row, 8)))
        with r.loop(carried) as number:
            row = r.row(words["carries"], number, CARRY)
            _exchange(r, inner, _slot(r, totals, number), r.word(row), r.word(row, 8))
    r.block("done")
    r.block("stop")
    return r


def _repeat() -> Routine:
    """A loop that runs while its condition holds, and at most `maximum` steps if that is not -1."""
    r = kernel_routine("repeat")
    words = r.words("%args", WHILE_WORDS, _POINTERS)
    maximum, carried = words["maximum"], words["carried"]
    totals = r.alloca(count=carried)
    team = _team(r, words)
    condition, inner = _new_slots(r, words, "tested."), _new_slots(r, words)
    with r.loop(carried) as number:
        row = r.row(words["states"], number, STATE)
        one, other = (_place_in(r, "%slots", row, word) for word in (3, 5))
        _set_slot(r, totals, number, r.add(one, other))
        _set_slot(r, inner, r.word(row, 16), one)
    before = r.here
    r.block("test")
    steps = r.phi("i64", (0, before), ("%following", "again"))
    bounded, spent = r.compare("sge", maximum, 0), r.compare("sge", steps, maximum)
    r.go_if(r.both(bounded, spent), "finish")
    test = (words["run"], team, words["tested.instructions"], words["tested.count"], condition)
    r.go_if(_run_body(r, *test), "stop")
    holds = _address(r, condition, words["condition.slot"], words["condition.offset"])
    r.go_if(r.equal(r.load("i8", r.cast("inttoptr", holds, "ptr")), 0), "finish")
    body = (words["run"], team, words["instructions"], words["count"], inner)
    r.go_if(_run_body(r, *body), "stop")
    _check_signals(r, words, steps)
    with r.loop(carried) as number:
        row = r.row(words["states"], number, STATE)
        tested, total = r.word(row), _slot(r, totals, number)
        value = _exchange(r, inner, total, r.word(row, 8), r.word(row, 16))
        with r.when(r.compare("sge", tested, 0)):
            _set_slot(r, condition, tested, value)
    r.block("again")
    r.line(f"%following = add i64 {steps}, 1")
    r.go("test")
    r.block("finish")
    steps_at = _address(r, "%slots", words["steps.slot"], words["steps.offset"])
    r.store(steps, r.cast("inttoptr", steps_at, "ptr"))
    with r.loop(carried) as number:
        row = r.row(words["states"], number, STATE)
        source, target = _slot(r, inner, r.word(row, 8)), _place_in(r, "%slots", row, 7)
        to, of = (r.cast("inttoptr", address, "ptr") for address in (target, source))
        r.copy(to, of, r.word(row, 72))
    r.block("stop")
    return r


def _choose() -> Routine:
    """One of several bodies, by an index that is clamped to their range."""
    r = kernel_routine("choose")
    words = r.words("%args", BRANCH_WORDS, _POINTERS)
    place = _address(r, "%slots", words["index.slot"], words["index.offset"])
    index = r.word(r.cast("inttoptr", place, "ptr"))
    below = r.least(index, r.subtract(words["choices"], 1))
    chosen = r.select(r.compare("slt", below, 0), 0, below)
    row = r.row(words["branches"], chosen, BRANCH)
    body = r.words(row, BODY_WORDS, _POINTERS)
    team, inner = _team(r, words), _new_slots(r, body)
    _run_body(r, words["run"], team, body["instructions"], body["count"], inner)
    return r
