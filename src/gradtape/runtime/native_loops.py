"""Loops and branches in native code.

One instruction runs the instructions of a body. A loop is native if all of its body is: kernels,
matrix products, loops and branches. Otherwise its NumPy rule runs it, node by node.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

from gradtape.codegen.kernels.lower import fusible
from gradtape.codegen.llvm import compile_ir
from gradtape.codegen.plans import control
from gradtape.codegen.plans.instructions import Instruction, Instructions
from gradtape.codegen.plans.interrupts import POLL_WORK
from gradtape.graph import Node, Program, rebuilt
from gradtape.ops.control.scan import SCAN
from gradtape.ops.control.scan_params import Scan
from gradtape.ops.control.while_loop import WHILE
from gradtape.ops.elementwise.arithmetic import IDENTITY
from gradtape.optimize.fuse import Fused, fuse
from gradtape.process.records import dataclass
from gradtape.runtime import thread_team as threads
from gradtape.runtime.native_stretches import PreparedInstruction
from gradtape.runtime.plan import Place

# However little a round does, the loop looks for signals after about so many.
MOST_ROUNDS = 1024
Row = Sequence[int]
# Takes some bytes of the arena around a node, for as long as the node is computed.
Take = Callable[[int], Place]


@dataclass(frozen=True, eq=False)
class Body:
    """The native instructions of a body, and the slots that a loop has to fill for them."""

    stream: Instructions
    products: bool
    work: int
    parallel: bool
    slots: int
    input_slots: Sequence[int]
    output_slots: Sequence[int]
    arena_slot: int
    arena_size: int
    # Constant tables by slot.
    tables: Sequence[tuple[int, np.ndarray]]
    # Keeps alive everything that the instructions name by address.
    kept: object


class NativeNode(Protocol):
    """A loop or branch that one native instruction computes."""

    def instruction(
        self, operands: Sequence[Place], places: Mapping[int, Place], take: Take
    ) -> PreparedInstruction:
        """The instruction, with operands and results at these places."""
        ...


@lru_cache(maxsize=1)
def _functions() -> dict[str, int]:
    compiled = compile_ir(control.control_ir())
    return {name: compiled.address(name) for name in ("scan", "repeat", "choose")}


def with_controls(
    program: Program, body_of: Callable[[Program], Body | None]
) -> tuple[Program, Mapping[Node, NativeNode], Fused]:
    """The program fused, and its loops and branches that are native.

    The operands of these must be contiguous: the program copies an operand that is not.
    """
    controls: dict[Node, NativeNode] = {}
    for node in program.nodes:
        if node.op.runs_bodies:
            found = _native(node, body_of)
            if found is not None:
                controls[node] = found
    fused = fuse(program, fusible)
    scattered = {
        operand for node in controls for operand in node.inputs if not _lies_whole(operand, fused)
    }
    if not scattered:
        return program, controls, fused
    program, renamed = with_copies(program, scattered, controls)
    controls = {renamed[node]: found for node, found in controls.items()}
    return program, controls, fuse(program, fusible)


def _lies_whole(node: Node, fused: Fused) -> bool:
    found = fused.access.get(node)
    return node not in fused.constants and found is not None and found.is_contiguous()


def with_copies(
    program: Program, copied: Collection[Node], readers: Collection[Node]
) -> tuple[Program, dict[Node, Node]]:
    """The program in which `readers` read copies of `copied`, and the new node of each old one."""
    new: dict[Node, Node] = {node: node for node in program.inputs}
    copies: dict[Node, Node] = {}
    nodes: list[Node] = []
    for node in program.nodes:
        inputs = [new[parent] for parent in node.inputs]
        if node in readers:
            for position, parent in enumerate(node.inputs):
                if parent in copied:
                    if parent not in copies:
                        copies[parent] = copy_of(new[parent])
                        nodes.append(copies[parent])
                    inputs[position] = copies[parent]
        new[node] = rebuilt(node, tuple(inputs))
        nodes.append(new[node])
    outputs = tuple(new[node] for node in program.outputs)
    return Program(program.inputs, tuple(nodes), outputs), new


def copy_of(node: Node) -> Node:
    """A node with the same value in memory of its own."""
    return Node(IDENTITY, (node,), (), node.spec)


def _native(node: Node, body_of: Callable[[Program], Body | None]) -> NativeNode | None:
    if node.op is SCAN:
        body = body_of(node.params[0])
        # Without a step the results are the operands; NumPy does that.
        return NativeScan(node, body) if body is not None and node.params[3] else None
    if node.op is WHILE:
        condition, body = body_of(node.params[0]), body_of(node.params[1])
        return NativeWhile(node, condition, body) if condition and body else None
    branches = [body_of(branch) for branch in node.params[0]]
    found = [body for body in branches if body is not None]
    if node.inputs[0].dtype != np.int64 or len(found) < len(branches):
        return None
    return NativeBranch(node, found)


class _Table:
    """Rows of words in memory."""

    def __init__(self, rows: Sequence[Row]) -> None:
        words = [word for row in rows for word in row]
        self._memory = (ctypes.c_int64 * max(len(words), 1))(*words)
        self.address = ctypes.addressof(self._memory)
        self.count = len(rows)


def _bound(slots: Sequence[int], places: Sequence[Place]) -> list[Row]:
    """Bindings of slots of a body to places around it."""
    return [(slot, *place) for slot, place in zip(slots, places, strict=True)]


def _own_bindings(body: Body, take: Take) -> list[Row]:
    """Bindings of the constant tables and the arena of a body."""
    rows: list[Row] = [(slot, control.LITERAL, table.ctypes.data) for slot, table in body.tables]
    if body.arena_size:
        rows.append((body.arena_slot, *take(body.arena_size)))
    return rows


def _body_words(body: Body, bindings: _Table, prefix: str = "") -> dict[str, int]:
    stream = body.stream
    values = (stream.address, stream.count, body.slots, bindings.address, bindings.count)
    return {prefix + name: word for name, word in zip(control.BODY_WORDS, values, strict=True)}


def _rounds(work: int) -> int:
    """The bits of the number of a round after which a loop looks for signals."""
    rounds = POLL_WORK // (work + POLL_WORK // MOST_ROUNDS)
    return (1 << rounds.bit_length()) - 1 if rounds > 1 else 0


def _instruction(function: str, names: Sequence[str], words: Mapping[str, int]) -> Instruction:
    known = {"run": threads.plan_address(), "team": threads.team_word(), **words}
    known["poll"] = threads.poll_address()
    return Instruction(_functions()[function], [known[name] for name in names], 1)


@dataclass(frozen=True)
class NativeScan:
    """A scan as one instruction."""

    node: Node
    body: Body

    def instruction(
        self, operands: Sequence[Place], places: Mapping[int, Place], take: Take
    ) -> PreparedInstruction:
        """The instruction, with operands and results at these places."""
        scan = Scan.of(self.node)
        program, constants, carries = scan.body, scan.constants, scan.carries
        length, reverse = scan.length, scan.reverse
        body = self.body
        first = constants + carries
        ins, outs = body.input_slots, body.output_slots
        bindings = _bound(ins[:first], operands[:first])
        moves: list[Row] = []

        def follow(slot: int, place: Place, nbytes: int) -> None:
            """Bind a slot to the element of the first step, and move the slot on with each step."""
            start = (length - 1) * nbytes if reverse else 0
            bindings.append((slot, place[0], place[1] + start))
            if nbytes and length > 1:
                moves.append((slot, -nbytes if reverse else nbytes))

        for number in range(first, len(operands)):
            follow(ins[number], operands[number], program.inputs[number].spec.nbytes)
        for number in range(carries, len(outs)):
            nbytes = program.outputs[number].spec.nbytes
            if number in places:
                follow(outs[number], places[number], nbytes)
            else:
                bindings.append((outs[number], *take(nbytes)))
        rows: list[Row] = []
        for number in range(carries):
            nbytes = program.outputs[number].spec.nbytes
            last = places.get(number) or take(nbytes)
            other = take(nbytes) if length > 1 else last
            rows.append((ins[constants + number], outs[number], *last, *other))
        bound = _Table([*bindings, *_own_bindings(body, take)])
        moving, carried = _Table(moves), _Table(rows)
        words = {
            **_body_words(body, bound), "rounds": _rounds(body.work), "length": length,
            "moves": moving.address, "moving": moving.count, "carries": carried.address,
            "carried": carried.count,
        }  # fmt: skip
        made, kept = _instruction("scan", control.SCAN_WORDS, words), (body, bound, moving, carried)
        work = length * body.work
        return PreparedInstruction(made, body.products, work, body.parallel, kept)


@dataclass(frozen=True)
class NativeWhile:
    """A while loop as one instruction."""

    node: Node
    condition: Body
    body: Body

    def instruction(
        self, operands: Sequence[Place], places: Mapping[int, Place], take: Take
    ) -> PreparedInstruction:
        """The instruction, with operands and results at these places."""
        _, program, constants, maximum = self.node.params
        condition, body = self.condition, self.body
        tested = _Table([
            *_bound(condition.input_slots, operands),
            (condition.output_slots[0], *take(8)),
            *_own_bindings(condition, take),
        ])  # fmt: skip
        bound = _Table([*_bound(body.input_slots, operands), *_own_bindings(body, take)])
        rows: list[Row] = []
        for number, output in enumerate(program.outputs):
            nbytes = output.spec.nbytes
            final = places.get(number) or take(nbytes)
            rows.append((
                condition.input_slots[constants + number], body.input_slots[constants + number],
                body.output_slots[number], *take(nbytes), *take(nbytes), *final, nbytes,
            ))  # fmt: skip
        steps, carried = places.get(len(rows)) or take(8), _Table(rows)
        words = {
            **_body_words(condition, tested, "tested."), **_body_words(body, bound),
            "rounds": _rounds(condition.work + body.work),
            "answer.slot": condition.output_slots[0], "answer.offset": 0,
            "maximum": -1 if maximum is None else maximum, "steps.slot": steps[0],
            "steps.offset": steps[1], "states": carried.address, "carried": carried.count,
        }  # fmt: skip
        # Its length is unknown: count it as long, so that the call gives up the GIL.
        return PreparedInstruction(
            _instruction("repeat", control.WHILE_WORDS, words),
            condition.products or body.products,
            1 << 30,
            condition.parallel or body.parallel,
            (condition, body, tested, bound, carried),
        )


@dataclass(frozen=True)
class NativeBranch:
    """A choice between bodies as one instruction."""

    node: Node
    branches: Sequence[Body]

    def instruction(
        self, operands: Sequence[Place], places: Mapping[int, Place], take: Take
    ) -> PreparedInstruction:
        """The instruction, with operands and results at these places."""
        index, *others = operands
        specs = enumerate(self.node.spec)
        targets = [places.get(number) or take(of.nbytes) for number, of in specs]
        tables = [
            _Table([
                *_bound(body.input_slots, others),
                *_bound(body.output_slots, targets),
                *_own_bindings(body, take),
            ])
            for body in self.branches
        ]  # fmt: skip
        bodies = zip(self.branches, tables, strict=True)
        choices = _Table([tuple(_body_words(body, table).values()) for body, table in bodies])
        words = {
            "index.slot": index[0], "index.offset": index[1], "branches": choices.address,
            "choices": choices.count,
        }  # fmt: skip
        return PreparedInstruction(
            _instruction("choose", control.BRANCH_WORDS, words),
            any(body.products for body in self.branches),
            max(body.work for body in self.branches),
            any(body.parallel for body in self.branches),
            (self.branches, tables, choices),
        )
