"""Routines: nodes on tiny arrays are gathered into routines, each of which is one node.

A robot arm is thousands of ops on vectors of three numbers. As loops over memory each takes the
time of a call, and as scalars of one routine some nanoseconds. A routine stands where the last
large value that it reads is known, so that no loop over large arrays waits for more than it did.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from gradtape.compiler.passes.add_parts import add_parts
from gradtape.compiler.passes.join_parts import join_parts
from gradtape.compiler.passes.routine_op import routine
from gradtape.compiler.passes.scalar_steps import (
    Lowers,
    Template,
    is_known,
    template_of,
)
from gradtape.config import (
    KERNEL_CALL_TIME,
    LEAST_SAVED_BY_ROUTINE,
    LEAST_SAVED_IN_LOOP,
    LONGEST_ROUTINE,
    MOST_VIEWED_SCALARS,
    SCALAR_STEP_TIME,
    VECTOR_STEP_TIME,
)
from gradtape.ir import PICK, Node, Program, Shape, rebuilt
from gradtape.ir.origin import LINES, follow
from gradtape.ops.elementwise.arithmetic import IDENTITY
from gradtape.ops.families.strides import is_strided_view
from gradtape.records import dataclass


@dataclass
class _Routine:
    """A routine while nodes are added."""

    nodes: list[Node]
    cost: int = 0
    vector_cost: float = 0.0

    def saves(self, loops: int) -> float:
        """The nanoseconds that it takes less than the same as loops."""
        return (
            loops * KERNEL_CALL_TIME
            + VECTOR_STEP_TIME * self.vector_cost
            - SCALAR_STEP_TIME * self.cost
            - KERNEL_CALL_TIME
        )


def with_routines(program: Program, lowers: Lowers, repeated: bool = False) -> Program:
    """Before: ops on tiny arrays. After: a routine with all of them, and picks of its results.

    `lowers` says of a node whether kernels compute it, and `repeated` whether a loop runs it all.
    """
    least = LEAST_SAVED_IN_LOOP if repeated else LEAST_SAVED_BY_ROUTINE
    # With fewer nodes the least saving cannot be reached.
    if sum(map(_may_be_tiny, program.nodes)) * KERNEL_CALL_TIME < least:
        return program
    # A sum of parts is a sum of many zeros, and their concatenation takes no step.
    found = _with_results(join_parts(add_parts(program)))
    parts = _Parts(lowers)
    for node in found.nodes:
        parts.add(node)
    chosen = parts.routines_saving(least)
    return _Outlining(found, parts, chosen).program() if chosen else program


def _with_results(program: Program) -> Program:
    """The program in which tiny outputs that are views are values: a routine may write these."""
    copies: dict[Node, Node] = {}
    for node in program.outputs:
        base = node
        while is_strided_view(base):
            (base,) = base.inputs
        if base is not node and base.inputs and 0 < node.size <= MOST_VIEWED_SCALARS:
            copies[node] = Node(IDENTITY, (node,), (), node.spec)
    outputs = tuple(copies.get(node, node) for node in program.outputs)
    return Program(program.inputs, (*program.nodes, *copies.values()), outputs)


def _may_be_tiny(node: Node) -> bool:
    return (
        type(node.spec) is not tuple and node.size <= MOST_VIEWED_SCALARS and node.op.view is None
    )


class _Parts:
    """The nodes of a program in their order, each either in a routine or by itself."""

    def __init__(self, lowers: Lowers) -> None:
        self._lowers = lowers
        # Nodes that cost nothing wherever they are read: tiny views, numbers, small tables.
        self.free: set[Node] = set()
        # Routines by the number of nodes outside routines that come before them; several where one
        # was full.
        self.routines: dict[int, list[_Routine]] = {}
        # The number of nodes outside routines that come before a node can be computed.
        self._after: dict[Node, int] = {}
        # The routine of each node that is in one, and the steps.
        self.home: dict[Node, _Routine] = {}
        self._templates: dict[Node, Template] = {}
        self._count = 0

    def add(self, node: Node) -> None:
        """Put a node into a routine, if it is tiny."""
        after, known = 0, self._after
        for parent in node.inputs:
            at = known.get(parent, 0)
            if at > after:
                after = at
        template = None
        if node.op.view is not None or node.op.constant:
            if is_known(node) or (is_strided_view(node) and 0 < node.size <= MOST_VIEWED_SCALARS):
                self.free.add(node)
                known[node] = after
                return
        elif node.op is PICK:
            home = self.home.get(node.inputs[0])
            if home is not None:
                known[node], self.home[node] = after, home
                home.nodes.append(node)
                return
        template = template_of(node, self._lowers)
        if template is None:
            self._count += 1
            known[node] = self._count
            return
        known[node] = after
        self._templates[node] = template
        listed = self.routines.setdefault(after, [])
        if not listed or listed[-1].cost + template.cost > LONGEST_ROUTINE:
            listed.append(_Routine([]))
        home = self.home[node] = listed[-1]
        home.nodes.append(node)
        home.cost += template.cost
        home.vector_cost += template.vector_cost

    def routines_saving(self, least: float) -> list[_Routine]:
        """The routines that are worth it; none if together they do not save enough."""
        found: list[_Routine] = []
        total = 0.0
        for listed in self.routines.values():
            for each in listed:
                saved = each.saves(self._loops(each.nodes))
                if saved > 0:
                    found.append(each)
                    total += saved
        return found if total >= least else []

    def _loops(self, nodes: Iterable[Node]) -> int:
        """About how many loops some nodes would be: like `fuse`, which makes loops by spaces."""
        loop_of: dict[Node, int] = {}
        pointwise: set[Node] = set()
        opened: dict[Shape, list[int]] = {}
        count = 0
        for node in nodes:
            template = self._templates.get(node)
            if template is None:
                continue
            if not template.joins:
                count += template.loops
                loop_of[node] = count
                continue
            space = node.inputs[0].shape if node.op.reduces else node.shape
            earliest = 0
            for parent in node.inputs:
                inside = parent in pointwise and parent.shape == space
                while parent in self.free and parent.inputs:
                    parent = parent.inputs[0]
                at = loop_of.get(parent, -1)
                earliest = max(earliest, at if inside else at + 1)
            fitting = opened.setdefault(space, [])
            at = bisect_left(fitting, earliest)
            if at == len(fitting):
                count += 1
                fitting.append(count)
            loop_of[node] = fitting[at]
            if not node.op.reduces:
                pointwise.add(node)
        return count


class _Outlining:
    """A program that is being written anew, with routines in the place of their nodes."""

    def __init__(self, program: Program, parts: _Parts, chosen: list[_Routine]) -> None:
        self._old = program
        self._parts = parts
        self._chosen = {id(each) for each in chosen}
        self._nodes: list[Node] = []
        self._new: dict[Node, Node] = {node: node for node in program.inputs}

    def program(self) -> Program:
        needed = self._needed()
        written = 0
        self._write_routines(0, needed)
        for node in self._old.nodes:
            if node in self._parts.home:
                continue
            if node in self._parts.free:
                continue  # It is written where it is read: that may be after a routine.
            self._write(node)
            written += 1
            self._write_routines(written, needed)
        outputs = tuple([self._made(node) for node in self._old.outputs])
        return Program(self._old.inputs, tuple(self._nodes), outputs)

    def _needed(self) -> set[Node]:
        """The nodes of routines that something outside their routine reads."""
        home, free = self._parts.home, self._parts.free
        needed: set[Node] = set()
        readers = [(node.inputs, home.get(node)) for node in self._old.nodes if node not in free]
        readers.append((self._old.outputs, None))
        for read, by in readers:
            for node in read:
                while node in free and node.inputs:
                    (node,) = node.inputs
                if by is None or home.get(node) is not by:
                    needed.add(node)
        return needed

    def _write_routines(self, after: int, needed: set[Node]) -> None:
        for each in self._parts.routines.get(after, ()):
            if id(each) in self._chosen:
                self._write_routine(each, needed)
            else:
                for node in each.nodes:
                    self._write(node)

    def _write_routine(self, found: _Routine, needed: set[Node]) -> None:
        inside: dict[Node, None] = {}
        operands: dict[Node, None] = {}

        def enter(node: Node) -> None:
            """List a node after all that it reads, which may be free nodes from outside."""
            if node in inside or node in operands:
                return
            if node in self._parts.free:
                for parent in node.inputs:
                    enter(parent)
                inside[node] = None
            else:
                operands[node] = None

        for node in found.nodes:
            for parent in node.inputs:
                enter(parent)
            inside[node] = None
        # A result that is several is read by its parts.
        outputs = tuple(
            node for node in found.nodes if node in needed and type(node.spec) is not tuple
        )
        body = Program(tuple(operands), tuple(inside), outputs)
        made, picks = routine(body, tuple([self._made(node) for node in operands]), found.cost)
        self._nodes += [made, *picks]
        self._new |= dict(zip(outputs, picks, strict=True))
        if LINES.following:
            for node, pick in zip(outputs, picks, strict=True):
                follow(node, pick)
                follow(node, made)

    def _write(self, node: Node) -> None:
        made = rebuilt(node, tuple([self._made(parent) for parent in node.inputs]))
        self._new[node] = made
        self._nodes.append(made)

    def _made(self, node: Node) -> Node:
        """The new node of an old one; a free one is written where it is first read."""
        found = self._new.get(node)
        if found is None:
            self._write(node)
            found = self._new[node]
        return found
