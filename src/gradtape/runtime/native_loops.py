"""Loops and branches in native code: one instruction runs the instructions of a body.

A loop is native if all of its body is: kernels, matrix products, loops and branches. Otherwise its
NumPy rule runs it, node by node.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from gradtape.codegen.kernels.lower import fusible
from gradtape.codegen.llvm import compile_ir
from gradtape.codegen.plans.control import (
    BRANCH_WORDS,
    LITERAL,
    SCAN_WORDS,
    WHILE_WORDS,
    control_ir,
)
from gradtape.codegen.plans.instructions import Instruction, Instructions
from gradtape.graph.node import Node
from gradtape.graph.op import REGISTRY
from gradtape.graph.program import Program
from gradtape.optimize.fuse import Fused, fuse
from gradtape.runtime import thread_team as threads
from gradtape.runtime.native_stretches import ControlInstruction
from gradtape.runtime.plan import Place

# Takes so many bytes of the arena around a loop, for as long as the loop runs.
Take = Callable[[int], Place]
Row = Sequence[int]


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


class NativeControl(Protocol):
    """A loop or branch that is one instruction."""

    def instruction(
        self, operands: Sequence[Place], places: Mapping[int, Place], take: Take
    ) -> ControlInstruction:
        """The instruction, with operands and results at these places."""
        ...


@lru_cache(maxsize=1)
def _functions() -> dict[str, int]:
    compiled = compile_ir(control_ir())
    return {name: compiled.address(name) for name in ("scan", "repeat", "choose")}


def with_controls(
    program: Program, body_of: Callable[[Program], Body | None]
) -> tuple[Program, Mapping[Node, NativeControl], Fused]:
    """The program fused, and its native loops and branches.

    The operands of these must be contiguous: the program copies an operand that is not.
    """
    controls: dict[Node, NativeControl] = {}
    for node in program.nodes:
        if node.op.family == "control":
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
        same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
        new[node] = node if same else Node(node.op, tuple(inputs), node.params, node.spec)
        nodes.append(new[node])
    outputs = tuple(new[node] for node in program.outputs)
    return Program(program.inputs, tuple(nodes), outputs), new


def copy_of(node: Node) -> Node:
    """A node with the same value in memory of its own."""
    return Node(REGISTRY["identity"], (node,), (), node.spec)


def _native(node: Node, body_of: Callable[[Program], Body | None]) -> NativeControl | None:
    name = node.op.name
    if name == "scan":
        body = body_of(node.params[0])
        # Without a step the results are the operands; NumPy does that.
        return NativeScan(node, body) if body is not None and node.params[3] else None
    if name == "while":
        condition, body = body_of(node.params[0]), body_of(node.params[1])
        return NativeWhile(node, condition, body) if condition and body else None
    branches = [body_of(branch) for branch in node.params[0]]
    found = [body for body in branches if body is not None]
    if node.inputs[0].dtype != np.int64 or len(found) < len(branches):
        return None
    return NativeBranch(node, found)


def _table(rows: Sequence[Row]) -> tuple[ctypes.Array[ctypes.c_int64], int]:
    """Rows of words in memory, and their address."""
    words = [word for row in rows for word in row]
    table = (ctypes.c_int64 * max(len(words), 1))(*words)
    return table, ctypes.addressof(table)


def _instruction(function: str, names: Sequence[str], words: Mapping[str, int]) -> Instruction:
    common = {"run": threads.plan_address(), "team": threads.team_word()}
    known = {**common, **words}
    return Instruction(_functions()[function], [known[name] for name in names], 1)


def _own_bindings(body: Body, take: Take) -> list[Row]:
    """Bindings of the constant tables and the arena of a body."""
    rows: list[Row] = [(slot, LITERAL, table.ctypes.data) for slot, table in body.tables]
    if body.arena_size:
        rows.append((body.arena_slot, *take(body.arena_size)))
    return rows


class NativeScan:
    """A scan as one instruction."""

    def __init__(self, node: Node, body: Body) -> None:
        self.node = node
        self.body = body

    def instruction(
        self, operands: Sequence[Place], places: Mapping[int, Place], take: Take
    ) -> ControlInstruction:
        """The instruction, with operands and results at these places."""
        program, constants, carries, length, reverse, _ = self.node.params
        body = self.body
        first = constants + carries
        ins, outs = body.input_slots, body.output_slots
        bindings: list[Row] = [(ins[n], *operands[n]) for n in range(first)]
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
        bindings += _own_bindings(body, take)
        tables = [_table(rows_) for rows_ in (bindings, moves, rows)]
        words = {
            "instructions": body.stream.address,
            "count": body.stream.count,
            "length": length,
            "slots": body.slots,
            "bindings": tables[0][1],
            "bound": len(bindings),
            "moves": tables[1][1],
            "moving": len(moves),
            "carries": tables[2][1],
            "carried": len(rows),
        }
        made = _instruction("scan", SCAN_WORDS, words)
        kept = (body, tables)
        return ControlInstruction(made, body.products, length * body.work, body.parallel, kept)


class NativeWhile:
    """A while loop as one instruction."""

    def __init__(self, node: Node, condition: Body, body: Body) -> None:
        self.node = node
        self.condition = condition
        self.body = body

    def instruction(
        self, operands: Sequence[Place], places: Mapping[int, Place], take: Take
    ) -> ControlInstruction:
        """The instruction, with operands and results at these places."""
        _, program, constants, maximum = self.node.params
        condition, body = self.condition, self.body
        tested: list[Row] = [
            (slot, *place) for slot, place in zip(condition.input_slots, operands, strict=True)
        ]
        tested.append((condition.output_slots[0], *take(8)))
        tested += _own_bindings(condition, take)
        bindings: list[Row] = [
            (slot, *place) for slot, place in zip(body.input_slots, operands, strict=True)
        ]
        bindings += _own_bindings(body, take)
        rows: list[Row] = []
        for number, output in enumerate(program.outputs):
            nbytes = output.spec.nbytes
            final = places.get(number) or take(nbytes)
            rows.append((
                condition.input_slots[constants + number], body.input_slots[constants + number],
                body.output_slots[number], *take(nbytes), *take(nbytes), *final, nbytes,
            ))  # fmt: skip
        steps = places.get(len(rows)) or take(8)
        tables = [_table(rows_) for rows_ in (tested, bindings, rows)]
        words = {
            "tests": condition.stream.address,
            "testing": condition.stream.count,
            "tested.slots": condition.slots,
            "tested.bindings": tables[0][1],
            "tested.bound": len(tested),
            "instructions": body.stream.address,
            "count": body.stream.count,
            "slots": body.slots,
            "bindings": tables[1][1],
            "bound": len(bindings),
            "answer.slot": condition.output_slots[0],
            "answer.offset": 0,
            "maximum": LITERAL if maximum is None else maximum,
            "steps.slot": steps[0],
            "steps.offset": steps[1],
            "states": tables[2][1],
            "carried": len(rows),
        }
        made = _instruction("repeat", WHILE_WORDS, words)
        # Its length is unknown: count it as long, so that the call gives up the GIL.
        return ControlInstruction(
            made, condition.products or body.products, 1 << 30,
            condition.parallel or body.parallel, (condition, body, tables),
        )  # fmt: skip


class NativeBranch:
    """A choice between bodies as one instruction."""

    def __init__(self, node: Node, branches: Sequence[Body]) -> None:
        self.node = node
        self.branches = branches

    def instruction(
        self, operands: Sequence[Place], places: Mapping[int, Place], take: Take
    ) -> ControlInstruction:
        """The instruction, with operands and results at these places."""
        targets = [
            places.get(number) or take(of.nbytes) for number, of in enumerate(self.node.spec)
        ]
        tables, rows = [], []
        for body in self.branches:
            bindings: list[Row] = [
                (slot, *place) for slot, place in zip(body.input_slots, operands[1:], strict=True)
            ]
            bindings += [
                (slot, *place) for slot, place in zip(body.output_slots, targets, strict=True)
            ]
            bindings += _own_bindings(body, take)
            table = _table(bindings)
            tables.append(table)
            rows.append(
                (body.stream.address, body.stream.count, body.slots, table[1], len(bindings))
            )
        choices = _table(rows)
        words = {
            "index.slot": operands[0][0],
            "index.offset": operands[0][1],
            "branches": choices[1],
            "choices": len(rows),
        }
        made = _instruction("choose", BRANCH_WORDS, words)
        return ControlInstruction(
            made,
            any(body.products for body in self.branches),
            max(body.work for body in self.branches),
            any(body.parallel for body in self.branches),
            (self.branches, tables, choices),
        )
