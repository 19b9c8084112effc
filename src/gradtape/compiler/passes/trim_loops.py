"""Trim loops: loops and branches compute only what is read of them, and nothing twice.

- Results that nothing reads, and carried values and operands that only those need, are dropped.
- A value that every step hands on unchanged is a constant, and so is a sequence of equal elements.
- What every step would compute alike is computed once, before the loop.
- Bodies are optimised like programs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gradtape.compiler.passes.rewrite import Rewriting
from gradtape.ir import OPERATORS, Op, Program, View, closed, dependents, topological
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
    """Before: `scan` with a result that nobody reads. After: `scan` without it.

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


def _copied(roots: Sequence[Node], image: Mapping[Node, Node]) -> dict[Node, Node]:
    """What the roots, and the nodes that they are computed from, become over the image."""
    new = dict(image)
    for node in topological(roots, stop=image.keys()):
        if node not in new:
            inputs = tuple(new[parent] for parent in node.inputs)
            new[node] = Node(node.op, inputs, node.params, node.spec)
    return new


def _reads(body: Program, roots: Sequence[Node]) -> set[Node]:
    """The inputs of a body that some of its nodes need."""
    given = set(body.inputs)
    return {node for node in topological(roots, stop=given) if node in given}


# Scans.


@dataclass(frozen=True)
class _Scan:
    """A scan that is being reduced: each operand with its input of the body."""

    constants: list[tuple[Node, Node]]
    # With the output of the body that is the next value.
    carries: list[tuple[Node, Node, Node]]
    sequences: list[tuple[Node, Node]]
    rows: list[Node]
    length: int

    def operands(self) -> list[Node]:
        groups = (self.constants, self.carries, self.sequences)
        return [item[0] for group in groups for item in group]

    def inputs(self) -> list[Node]:
        groups = (self.constants, self.carries, self.sequences)
        return [item[1] for group in groups for item in group]

    def outputs(self) -> list[Node]:
        return [*[following for _, _, following in self.carries], *self.rows]

    def body(self) -> Program:
        return closed(self.inputs(), self.outputs())

    def params(self, old: Scan) -> tuple[object, ...]:
        constants, carries = len(self.constants), len(self.carries)
        return replace(old, body=self.body(), constants=constants, carries=carries).params

    def over(self, body: Program) -> _Scan:
        """The same with another body of these inputs and outputs."""
        inputs, outputs = iter(body.inputs), iter(body.outputs)
        constants = [(operand, next(inputs)) for operand, _ in self.constants]
        carries = [(operand, next(inputs), next(outputs)) for operand, _, _ in self.carries]
        sequences = [(operand, next(inputs)) for operand, _ in self.sequences]
        return replace(
            self, constants=constants, carries=carries, sequences=sequences, rows=list(outputs)
        )

    def without_unread(self) -> _Scan:
        """The same without operands that the body does not read."""
        given = set(self.inputs())
        read = {node for node in topological(self.outputs(), stop=given) if node in given}
        return replace(
            self,
            constants=[pair for pair in self.constants if pair[1] in read],
            sequences=[pair for pair in self.sequences if pair[1] in read],
        )


def _live_carries(scan: Scan, used: Used) -> tuple[set[int], set[Node]]:
    """The carried values that the used results need, and all inputs of the body that they do."""
    body = scan.body
    live = {position for position in used if position < scan.carries}
    while True:
        read = _reads(body, [body.outputs[p] for p in sorted(live | used)])
        more = {n for n in range(scan.carries) if body.inputs[scan.constants + n] in read}
        if more <= live:
            return live, read
        live |= more


def _scan_needs(node: Node, used: Used) -> list[int]:
    scan = Scan.of(node)
    live, read = _live_carries(scan, used)
    carried = {scan.constants + number for number in live}
    return [p for p, given in enumerate(scan.body.inputs) if p in carried or given in read]


def _reduced_scan(
    optimized: Optimize, node: Node, operands: Sequence[Node | None], used: Used
) -> dict[int, Node]:
    old = Scan.of(node)
    body, constants = old.body, old.constants
    live, read = _live_carries(old, used)
    # A value that is handed on unchanged is a constant.
    same = {n for n in live if body.outputs[n] is body.inputs[constants + n]}
    fixed = [p for p in range(constants) if body.inputs[p] in read]
    fixed += [constants + n for n in sorted(same)]
    moving = sorted(live - same)
    rows = sorted(position for position in used if position >= old.carries)
    scan = _Scan(
        [(_known(operands[p]), body.inputs[p]) for p in fixed],
        [
            (_known(operands[constants + n]), body.inputs[constants + n], body.outputs[n])
            for n in moving
        ],
        [
            (_known(operands[p]), body.inputs[p])
            for p in range(old.first, len(body.inputs))
            if body.inputs[p] in read
        ],
        [body.outputs[position] for position in rows],
        old.length,
    )
    scan = _with_constants(scan)
    scan = scan.over(optimized(scan.body())).without_unread()
    scan = _hoisted(scan)
    found = {n: _known(operands[constants + n]) for n in same if n in used}
    # A result that is an operand, or another result, is not written again.
    sequence = {given: operand for operand, given in scan.sequences}
    kept: dict[Node, list[int]] = {}
    for position, row in zip(rows, scan.rows, strict=True):
        if row in sequence:
            found[position] = sequence[row]
        else:
            kept.setdefault(row, []).append(position)
    scan = replace(scan, rows=list(kept)).without_unread()
    if not moving and not kept:
        return found
    made = _made(SCAN, scan.operands(), scan.params(old))
    numbered = _results(made, range(len(moving) + len(kept)))
    found.update((number, numbered[at]) for at, number in enumerate(moving))
    for at, positions in enumerate(kept.values(), start=len(moving)):
        found.update((position, numbered[at]) for position in positions)
    return found


def _known(operand: Node | None) -> Node:
    assert operand is not None, "an operand that is read was dropped"
    return operand


def _with_constants(scan: _Scan) -> _Scan:
    """Operands that are the same in every element, as constants; those of one number, inside."""
    inside: dict[Node, Node] = {}
    constants: list[tuple[Node, Node]] = []
    for operand, given in scan.constants:
        if constant_value(operand) is not None:
            inside[given] = _full(operand, given)
        else:
            constants.append((operand, given))
    sequences: list[tuple[Node, Node]] = []
    for operand, given in scan.sequences:
        if constant_value(operand) is not None:
            inside[given] = _full(operand, given)
            continue
        element = _equal_element(operand, given)
        if element is None:
            sequences.append((operand, given))
        else:
            constants.append((element, given))
    if not inside:
        return replace(scan, constants=constants, sequences=sequences)
    known = {node for _, node in (*constants, *sequences)} | {node for _, node, _ in scan.carries}
    found = _copied(scan.outputs(), {**inside, **{node: node for node in known}})
    carries = [(operand, given, found[following]) for operand, given, following in scan.carries]
    rows = [found[row] for row in scan.rows]
    return replace(scan, constants=constants, carries=carries, sequences=sequences, rows=rows)


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


def _hoisted(scan: _Scan) -> _Scan:
    """Nodes that depend on constants alone move before the loop; views, which are free, stay."""
    roots = scan.outputs()
    given = set(scan.inputs())
    order = topological(roots, stop=given)
    moving = {node for _, node in scan.sequences} | {node for _, node, _ in scan.carries}
    varying = dependents(order, moving)
    wanted: dict[Node, None] = {}
    for node in order:
        if node in varying or node in roots:
            parents = [node] if node in roots and node not in varying else node.inputs
            for parent in parents:
                if parent not in varying:
                    source = _source(parent)
                    if source not in given and _may_move(source, scan.length):
                        wanted[source] = None
    if not wanted:
        return scan
    image = {node: operand for operand, node in scan.constants}
    copies = _copied(list(wanted), image)
    outside = [copies[node] for node in wanted]
    return replace(
        scan, constants=[*scan.constants, *zip(outside, wanted, strict=True)]
    ).without_unread()


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


def _while_live(node: Node, used: Used) -> tuple[set[int], set[Node]]:
    condition, body, constants, _ = node.params
    carries = len(body.outputs)
    tested = _reads(condition, condition.outputs)
    live = {position for position in used if position < carries}
    live |= {n for n in range(carries) if condition.inputs[constants + n] in tested}
    while True:
        read = _reads(body, [body.outputs[position] for position in sorted(live)])
        more = {n for n in range(carries) if body.inputs[constants + n] in read}
        if more <= live:
            break
        live |= more
    own = dict(zip(condition.inputs, body.inputs, strict=True))
    return live, read | {own[one] for one in tested}


def _while_needs(node: Node, used: Used) -> list[int]:
    _, body, constants, _ = node.params
    live, read = _while_live(node, used)
    carried = {constants + number for number in live}
    return [p for p, given in enumerate(body.inputs) if p in carried or given in read]


def _reduced_while(
    optimized: Optimize, node: Node, operands: Sequence[Node | None], used: Used
) -> dict[int, Node]:
    condition, body, constants, maximum = node.params
    live, read = _while_live(node, used)
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
