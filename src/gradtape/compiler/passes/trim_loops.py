"""Trim loops: loops and branches compute only what is read of them, and nothing twice.

- Results that nothing reads, and carried values and operands that only those need, are dropped.
- A value that every step passes on unchanged is a constant, and so is a sequence of equal elements.
- What every step would compute alike is computed once, before the loop.
- Bodies are optimised like programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from gradtape.compiler.passes.rewrite import Rewriting
from gradtape.ir import OPERATORS, Op, Program, View, closed, dependents, substitute, topological
from gradtape.ir.node import PICK, Node, constant_value
from gradtape.ops.arrays.movement import BROADCAST_TO, RESHAPE
from gradtape.ops.control.branch import BRANCH
from gradtape.ops.control.scan import SCAN
from gradtape.ops.control.scan_params import Scan
from gradtape.ops.control.while_loop import WHILE
from gradtape.ops.families.strides import is_strided_view
from gradtape.records import dataclass

Optimize = Callable[[Program], Program]
# The results of a loop or branch that are read, by position.
Used = frozenset[int]


def trim_loops(program: Program, optimized: Optimize) -> Program:
    """Before: `scan` with a result that nothing reads. After: `scan` without it.

    `optimized` runs all passes on a body.
    """
    if not any(node.op.runs_bodies for node in program.nodes):
        return program
    used = _used(program)
    now = Rewriting(program)
    # For each loop or branch: the node that gives each of its results.
    results: dict[Node, dict[int, Node]] = {}
    for node in program.nodes:
        if node in used:
            # An operand that only unread results need has no node any more.
            operands = [now.new.get(parent) for parent in node.inputs]
            results[node] = _REDUCED[node.op](optimized, node, operands, used[node])
        elif node.op is PICK and node.inputs[0] in results:
            found = results[node.inputs[0]].get(node.params[0])
            if found is not None:
                now.put(node, found)
        elif all(parent in now.new for parent in node.inputs):
            now.put(node, now.over(node))
    return now.finished()


def _used(program: Program) -> dict[Node, Used]:
    """The results of each loop or branch that are read by nodes which are read themselves."""
    live = set(program.outputs)
    picked: dict[Node, set[int]] = {}
    found: dict[Node, Used] = {}
    for node in reversed(program.nodes):
        if node.op.runs_bodies:
            if node in picked:
                found[node] = frozenset(picked[node])
                needed = _NEEDED[node.op](node, found[node])
                live.update(node.inputs[position] for position in needed)
        elif node in live:
            if node.op is PICK and node.inputs[0].op.runs_bodies:
                picked.setdefault(node.inputs[0], set()).add(node.params[0])
            live.update(node.inputs)
    return found


def _made(op: Op, inputs: Sequence[Node], params: tuple[object, ...]) -> Node:
    of = op.spec(*[node.spec for node in inputs], **op.keywords(params))
    return Node(op, tuple(inputs), params, of)


def _results(node: Node, positions: Sequence[int]) -> dict[int, Node]:
    """The outputs of a node, by the numbers that they had before."""
    return {old: _made(PICK, (node,), (number,)) for number, old in enumerate(positions)}


def _reads(body: Program, roots: Sequence[Node]) -> set[Node]:
    """The inputs of a body that some of its nodes need."""
    given = set(body.inputs)
    return {node for node in topological(roots, stop=given) if node in given}


def _live(
    body: Program, carried: range, live: set[int], rows: Used = frozenset()
) -> tuple[set[int], set[Node]]:
    """The carried values that the live ones and some rows need, and the inputs that are read.

    `carried` are the positions of the carried values among the inputs of the body.
    """
    while True:
        read = _reads(body, [body.outputs[number] for number in sorted(live | rows)])
        more = {number for number, at in enumerate(carried) if body.inputs[at] in read}
        if more <= live:
            return live, read
        live |= more


def _needed(body: Program, first: int, live: set[int], read: set[Node]) -> list[int]:
    """The operands that live values and inputs that are read are."""
    carried = {first + number for number in live}
    return [p for p, given in enumerate(body.inputs) if p in carried or given in read]


# Scans.


@dataclass(frozen=True)
class _Scan:
    """A scan that is being reduced: operands by their inputs of the body."""

    constants: dict[Node, Node]
    # With the output of the body that is the next value.
    carries: dict[Node, tuple[Node, Node]]
    sequences: dict[Node, Node]
    rows: list[Node]

    def operands(self) -> list[Node]:
        carried = [operand for operand, _ in self.carries.values()]
        return [*self.constants.values(), *carried, *self.sequences.values()]

    def inputs(self) -> list[Node]:
        return [*self.constants, *self.carries, *self.sequences]

    def outputs(self) -> list[Node]:
        return [*[following for _, following in self.carries.values()], *self.rows]

    def params(self, old: Scan) -> tuple[object, ...]:
        body = closed(self.inputs(), self.outputs())
        constants, carries = len(self.constants), len(self.carries)
        return replace(old, body=body, constants=constants, carries=carries).params

    def over(self, inputs: Iterable[Node], outputs: Sequence[Node]) -> _Scan:
        """The same with other inputs and outputs of the body."""
        new = dict(zip(self.inputs(), inputs, strict=True))
        carried = zip(self.carries.items(), outputs, strict=False)
        return _Scan(
            {new[given]: operand for given, operand in self.constants.items()},
            {new[given]: (operand, following) for (given, (operand, _)), following in carried},
            {new[given]: operand for given, operand in self.sequences.items()},
            list(outputs[len(self.carries) :]),
        )

    def without_unread(self) -> _Scan:
        """The same without operands that the body does not read."""
        read = set(topological(self.outputs(), stop=set(self.inputs())))
        constants = {given: each for given, each in self.constants.items() if given in read}
        sequences = {given: each for given, each in self.sequences.items() if given in read}
        return replace(self, constants=constants, sequences=sequences)


def _live_in_scan(scan: Scan, used: Used) -> tuple[set[int], set[Node]]:
    live = {position for position in used if position < scan.carries}
    return _live(scan.body, range(scan.constants, scan.first), live, used)


def _scan_needs(node: Node, used: Used) -> list[int]:
    scan = Scan.of(node)
    return _needed(scan.body, scan.constants, *_live_in_scan(scan, used))


def _reduced_scan(
    optimized: Optimize, node: Node, operands: Sequence[Node | None], used: Used
) -> dict[int, Node]:
    old = Scan.of(node)
    body = old.body
    live, read = _live_in_scan(old, used)
    operand_of = dict(zip(body.inputs, operands, strict=True))
    known = {given: _known(operand_of[given]) for given in body.inputs if given in read}
    fixed, carried, elements = old.parts(body.inputs)
    following = dict(zip(carried, body.outputs, strict=False))
    # A value that is carried on unchanged is a constant.
    same = [n for n in sorted(live) if following[carried[n]] is carried[n]]
    moving = sorted(live.difference(same))
    rows = sorted(position for position in used if position >= old.carries)
    scan = _Scan(
        {given: known[given] for given in (*fixed, *[carried[n] for n in same]) if given in known},
        {carried[n]: (_known(operand_of[carried[n]]), following[carried[n]]) for n in moving},
        {given: known[given] for given in elements if given in known},
        [body.outputs[position] for position in rows],
    )
    scan = _with_constants(scan)
    small = optimized(closed(scan.inputs(), scan.outputs()))
    scan = _hoisted(scan.over(small.inputs, small.outputs).without_unread(), old.length)
    found = {n: _known(operand_of[carried[n]]) for n in same if n in used}
    # A result that is an operand, or another result, is not written again.
    kept: dict[Node, list[int]] = {}
    for position, row in zip(rows, scan.rows, strict=True):
        if row in scan.sequences:
            found[position] = scan.sequences[row]
        else:
            kept.setdefault(row, []).append(position)
    scan = replace(scan, rows=list(kept)).without_unread()
    if not moving and not kept:
        return found
    made = _made(SCAN, scan.operands(), scan.params(old))
    for at, positions in enumerate([*[[n] for n in moving], *kept.values()]):
        found |= dict.fromkeys(positions, _made(PICK, (made,), (at,)))
    return found


def _known(operand: Node | None) -> Node:
    assert operand is not None, "an operand that is read was dropped"
    return operand


def _with_constants(scan: _Scan) -> _Scan:
    """Operands that are the same in every element, as constants; those of one number, inside."""
    inside: dict[Node, Node] = {}
    constants: dict[Node, Node] = {}
    sequences: dict[Node, Node] = {}
    for given, operand in (scan.constants | scan.sequences).items():
        if constant_value(operand) is not None:
            inside[given] = _full(operand, given)
            continue
        element = operand if given in scan.constants else _equal_element(operand, given)
        if element is None:
            sequences[given] = operand
        else:
            constants[given] = element
    scan = replace(scan, constants=constants, sequences=sequences)
    return scan.over(scan.inputs(), substitute(scan.outputs(), inside, _made)) if inside else scan


def _full(operand: Node, given: Node) -> Node:
    params = (given.shape, constant_value(operand), given.dtype)
    return Node(OPERATORS.full, (), params, given.spec)


def _equal_element(operand: Node, given: Node) -> Node | None:
    """The element of a sequence that is one element, stretched."""
    if operand.op.view is not View.BROADCAST:
        return None
    source = operand.inputs[0]
    if source.ndim == operand.ndim:
        if source.shape[0] != 1:
            return None
        source = _made(RESHAPE, (source,), (source.shape[1:],))
    if source.shape == given.shape:
        return source
    return _made(BROADCAST_TO, (source,), (given.shape,))


def _hoisted(scan: _Scan, length: int) -> _Scan:
    """Nodes that depend on constants alone move before the loop; views, which are free, stay."""
    roots = scan.outputs()
    given = set(scan.inputs())
    order = topological(roots, stop=given)
    varying = dependents(order, [*scan.sequences, *scan.carries])
    wanted: dict[Node, None] = {}
    for node in order:
        if node in varying or node in roots:
            parents = [node] if node in roots and node not in varying else node.inputs
            for parent in parents:
                if parent not in varying:
                    source = _source(parent)
                    if source not in given and _may_move(source, length):
                        wanted[source] = None
    if not wanted:
        return scan
    outside = substitute(wanted, scan.constants, _made)
    moved = dict(zip(wanted, outside, strict=True))
    return replace(scan, constants=scan.constants | moved).without_unread()


def _source(node: Node) -> Node:
    """The node that a node is a view of, through any number of views."""
    while is_strided_view(node):
        node = node.inputs[0]
    return node


def _may_move(node: Node, length: int) -> bool:
    """Whether a node may be computed even if the loop has no step, and is worth an operand."""
    if node.op.constant or type(node.spec) is tuple:
        return False
    return not any(
        (one.op.opaque and one.inputs) or (one.op.may_fail and not length)
        for one in topological([node])
    )


# Loops without a fixed length.


def _live_in_while(node: Node, used: Used) -> tuple[set[int], set[Node]]:
    condition, body, constants, _ = node.params
    carried = range(constants, len(body.inputs))
    tested = _reads(condition, condition.outputs)
    live = {number for number, at in enumerate(carried) if condition.inputs[at] in tested}
    live, read = _live(body, carried, live | {n for n in used if n < len(carried)})
    own = dict(zip(condition.inputs, body.inputs, strict=True))
    return live, read | {own[one] for one in tested}


def _while_needs(node: Node, used: Used) -> list[int]:
    _, body, constants, _ = node.params
    return _needed(body, constants, *_live_in_while(node, used))


def _reduced_while(
    optimized: Optimize, node: Node, operands: Sequence[Node | None], used: Used
) -> dict[int, Node]:
    condition, body, constants, maximum = node.params
    live, read = _live_in_while(node, used)
    fixed = [p for p in range(constants) if body.inputs[p] in read]
    moving = sorted(live)
    kept = [*fixed, *[constants + n for n in moving]]
    tested = optimized(closed([condition.inputs[p] for p in kept], condition.outputs))
    step = closed([body.inputs[p] for p in kept], [body.outputs[n] for n in moving])
    params = (tested, optimized(step), len(fixed), maximum)
    found = _made(WHILE, [_known(operands[p]) for p in kept], params)
    return _results(found, [*moving, len(body.outputs)])


# Branches.


def _branch_needs(node: Node, used: Used) -> list[int]:
    (branches,) = node.params
    needed = {0}
    for body in branches:
        read = _reads(body, [body.outputs[position] for position in sorted(used)])
        needed |= {p + 1 for p, given in enumerate(body.inputs) if given in read}
    return sorted(needed)


def _reduced_branch(
    optimized: Optimize, node: Node, operands: Sequence[Node | None], used: Used
) -> dict[int, Node]:
    (branches,) = node.params
    positions = sorted(used)
    kept = _branch_needs(node, used)
    smaller = tuple(
        optimized(
            closed([body.inputs[p - 1] for p in kept[1:]], [body.outputs[p] for p in positions])
        )
        for body in branches
    )
    found = _made(BRANCH, [_known(operands[p]) for p in kept], (smaller,))
    return _results(found, positions)


_NEEDED: dict[Op, Callable[[Node, Used], list[int]]] = {
    SCAN: _scan_needs,
    WHILE: _while_needs,
    BRANCH: _branch_needs,
}
_REDUCED: dict[Op, Callable[[Optimize, Node, Sequence[Node | None], Used], dict[int, Node]]] = {
    SCAN: _reduced_scan,
    WHILE: _reduced_while,
    BRANCH: _reduced_branch,
}
