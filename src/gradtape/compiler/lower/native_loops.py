"""Loops and branches in native code: one instruction runs the instructions of a body."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from gradtape.compiler import thread_team as threads
from gradtape.compiler.emit.plans import control
from gradtape.compiler.emit.plans.instructions import STATUS, Instruction, Instructions
from gradtape.compiler.lower.native_stretches import PreparedInstruction
from gradtape.compiler.lower.plan import CallMemory, SlotPlace
from gradtape.compiler.objects.llvm import compile_ir
from gradtape.config import LONG_LOOP_WORK, MOST_ROUNDS_BETWEEN_POLLS, WORK_BETWEEN_POLLS
from gradtape.ir import Node, Program
from gradtape.ops.control.scan import SCAN
from gradtape.ops.control.scan_params import Scan
from gradtape.ops.control.while_loop import WHILE
from gradtape.records import dataclass

_Row = Sequence[int]


@dataclass(frozen=True, eq=False)
class NativeBody:
    """The native instructions of a body, and the slots that a loop has to fill for them."""

    stream: Instructions
    products: bool
    work: int
    # Whether some instruction is worth waking threads for; whether one is worth sharing with
    # threads that are awake.
    parallel: bool
    shared: bool
    slots: int
    input_slots: Sequence[int]
    output_slots: Sequence[int]
    arena_slot: int
    arena_size: int
    # Constant tables by slot.
    tables: Sequence[tuple[int, np.ndarray]]
    # The names of ops that some instruction calls in Python.
    python_ops: frozenset[str]
    # Keeps alive everything that the instructions name by address.
    kept: object


@lru_cache(maxsize=1)
def _functions() -> dict[str, int]:
    compiled = compile_ir(control.control_ir())
    return {name: compiled.address(name) for name in ("scan", "repeat", "choose")}


def native_loop(
    node: Node, body_of: Callable[[Program], NativeBody], memory: CallMemory
) -> PreparedInstruction | None:
    """A loop or branch as one instruction.

    None for a branch by an unsigned index of 64 bits: no signed word holds all of its values.
    """
    if node.op is SCAN:
        return _scan(Scan.of(node), body_of(node.params[0]), memory)
    if node.op is WHILE:
        bodies = body_of(node.params[0]), body_of(node.params[1])
        return _while(node, *bodies, memory)
    if node.inputs[0].dtype != np.int64:
        return None
    return _branch(node, [body_of(branch) for branch in node.params[0]], memory)


class _Table:
    """Rows of words in memory."""

    def __init__(self, rows: Sequence[_Row]) -> None:
        words = [word for row in rows for word in row]
        self._memory = (ctypes.c_int64 * max(len(words), 1))(*words)
        self.address = ctypes.addressof(self._memory)
        self.count = len(rows)


def _bound(slots: Sequence[int], places: Sequence[SlotPlace]) -> list[_Row]:
    """Bindings of slots of a body to places around it."""
    return [(slot, *place) for slot, place in zip(slots, places, strict=True)]


def _own_bindings(body: NativeBody, memory: CallMemory) -> list[_Row]:
    """Bindings of the constant tables, the status of the run and the arena of a body."""
    rows: list[_Row] = [(slot, control.LITERAL, table.ctypes.data) for slot, table in body.tables]
    rows.append((STATUS, STATUS, 0))
    if body.arena_size:
        rows.append((body.arena_slot, *memory.take(body.arena_size)))
    return rows


def _body_words(body: NativeBody, bindings: _Table, prefix: str = "") -> dict[str, int]:
    stream = body.stream
    values = (stream.address, stream.count, body.slots, bindings.address, bindings.count)
    return {prefix + name: word for name, word in zip(control.BODY_WORDS, values, strict=True)}


def _rounds(work: int) -> int:
    """The bits of the number of a round after which a loop checks for signals."""
    rounds = WORK_BETWEEN_POLLS // (work + WORK_BETWEEN_POLLS // MOST_ROUNDS_BETWEEN_POLLS)
    return (1 << rounds.bit_length()) - 1 if rounds > 1 else 0


# In the place of the address of the team, for loops that do not share their work.
_NO_TEAM = ctypes.c_int64(0)


def _prepared(
    function: str,
    names: Sequence[str],
    words: Mapping[str, int],
    bodies: Sequence[NativeBody],
    work: int,
    shared: bool,
    tables: Sequence[_Table],
) -> PreparedInstruction:
    known = {
        "run": threads.plan_address(),
        "team": threads.team_word() if shared else ctypes.addressof(_NO_TEAM),
        "poll": threads.poll_address(),
        **words,
    }
    return PreparedInstruction(
        Instruction(_functions()[function], [known[name] for name in names], 1),
        any(body.products for body in bodies),
        work,
        shared,
        (bodies, tables),
        frozenset[str]().union(*[body.python_ops for body in bodies]),
    )


def _scan(scan: Scan, body: NativeBody, memory: CallMemory) -> PreparedInstruction:
    constants, carries, length = scan.constants, scan.carries, scan.length
    first = constants + carries
    ins, outs = body.input_slots, body.output_slots
    bindings = _bound(ins[:first], memory.operands[:first])
    moves: list[_Row] = []

    def follow(slot: int, place: SlotPlace, nbytes: int) -> None:
        """Bind a slot to the element of the first step, and move the slot on with each step."""
        start = (length - 1) * nbytes if scan.reverse else 0
        bindings.append((slot, place[0], place[1] + start))
        if nbytes and length > 1:
            moves.append((slot, -nbytes if scan.reverse else nbytes))

    for number in range(first, len(memory.operands)):
        follow(ins[number], memory.operands[number], scan.body.inputs[number].spec.nbytes)
    rows: list[_Row] = []
    for number, output in enumerate(scan.body.outputs):
        nbytes = output.spec.nbytes
        if number < carries:
            last = memory.result(number, nbytes)
            other = memory.take(nbytes) if length > 1 else last
            rows.append((ins[constants + number], outs[number], *last, *other))
        elif number in memory.results:
            follow(outs[number], memory.results[number], nbytes)
        else:
            bindings.append((outs[number], *memory.take(nbytes)))
    bound = _Table([*bindings, *_own_bindings(body, memory)])
    moving, carried = _Table(moves), _Table(rows)
    words = {
        **_body_words(body, bound),
        "rounds": _rounds(body.work),
        "length": length,
        "moves": moving.address,
        "moving": moving.count,
        "carries": carried.address,
        "carried": carried.count,
    }
    work = length * body.work
    shared = body.parallel or (body.shared and work >= LONG_LOOP_WORK)
    tables = (bound, moving, carried)
    return _prepared("scan", control.SCAN_WORDS, words, [body], work, shared, tables)


def _while(
    node: Node, condition: NativeBody, body: NativeBody, memory: CallMemory
) -> PreparedInstruction:
    _, program, constants, maximum = node.params
    tested = _Table(
        [
            *_bound(condition.input_slots, memory.operands),
            (condition.output_slots[0], *memory.take(8)),
            *_own_bindings(condition, memory),
        ]
    )
    bound = _Table([*_bound(body.input_slots, memory.operands), *_own_bindings(body, memory)])
    rows: list[_Row] = []
    for number, output in enumerate(program.outputs):
        nbytes = output.spec.nbytes
        final = memory.result(number, nbytes)
        rows.append(
            (
                condition.input_slots[constants + number],
                body.input_slots[constants + number],
                body.output_slots[number],
                *memory.take(nbytes),
                *memory.take(nbytes),
                *final,
                nbytes,
            )
        )
    steps, carried = memory.result(len(rows), 8), _Table(rows)
    words = {
        **_body_words(condition, tested, "tested."),
        **_body_words(body, bound),
        "rounds": _rounds(condition.work + body.work),
        "condition.slot": condition.output_slots[0],
        "condition.offset": 0,
        "maximum": -1 if maximum is None else maximum,
        "steps.slot": steps[0],
        "steps.offset": steps[1],
        "states": carried.address,
        "carried": carried.count,
    }
    bodies, shared = [condition, body], condition.shared or body.shared
    # Its length is unknown: count it as long, so that the call gives up the GIL.
    work, tables = 1 << 30, (tested, bound, carried)
    return _prepared("repeat", control.WHILE_WORDS, words, bodies, work, shared, tables)


def _branch(node: Node, branches: Sequence[NativeBody], memory: CallMemory) -> PreparedInstruction:
    index, *others = memory.operands
    specs = enumerate(node.spec)
    targets = [memory.result(number, of.nbytes) for number, of in specs]
    tables = [
        _Table(
            [
                *_bound(body.input_slots, others),
                *_bound(body.output_slots, targets),
                *_own_bindings(body, memory),
            ]
        )
        for body in branches
    ]
    bodies = zip(branches, tables, strict=True)
    choices = _Table([tuple(_body_words(body, table).values()) for body, table in bodies])
    words = {
        "index.slot": index[0],
        "index.offset": index[1],
        "branches": choices.address,
        "choices": choices.count,
    }
    parallel = any(body.parallel for body in branches)
    work = max(body.work for body in branches)
    tables.append(choices)
    return _prepared("choose", control.BRANCH_WORDS, words, branches, work, parallel, tables)
