"""Trim: loops and branches compute only what is read of them, and nothing twice.

- Results that nothing reads, and carried values and operands that only those need, are dropped.
- A value that every step hands on unchanged is a constant, and so is a sequence of equal elements.
- What every step would compute alike is computed once, before the loop.
- Bodies are optimised like programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradtape.graph.node import PICK, Node
from gradtape.graph.op import REGISTRY
from gradtape.graph.program import Program, closed
from gradtape.graph.walk import dependents, topological

VIEWS = frozenset({"reshape", "broadcast_to", "permute_dims", "slice"})


def trim(program: Program) -> Program:
    """Before: `scan` with a result that nobody reads. After: `scan` without it."""
    if not any(node.op.family == "control" for node in program.nodes):
        return program
    used = _used(program)
    new: dict[Node, Node] = {node: node for node in program.inputs}
    nodes: list[Node] = []
    # For each control node: the node that gives each of its results.
    results: dict[Node, dict[int, Node]] = {}
    for node in program.nodes:
        if node in used:
            writer = _Writer(nodes)
            operands = [new.get(parent) for parent in node.inputs]
            results[node] = _REDUCED[node.op.name](writer, node, operands, used[node])
        elif node.op is PICK and node.inputs[0] in results:
            found = results[node.inputs[0]].get(node.params[0])
            if found is not None:
                new[node] = found
        elif all(parent in new for parent in node.inputs):
            inputs = tuple(new[parent] for parent in node.inputs)
            same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
            new[node] = node if same else Node(node.op, inputs, node.params, node.spec)
            nodes.append(new[node])
    outputs = tuple(new[node] for node in program.outputs)
    needed = set(topological(outputs, stop=set(program.inputs)))
    kept = tuple(dict.fromkeys(node for node in nodes if node in needed))
    return Program(program.inputs, kept, outputs)


def _used(program: Program) -> dict[Node, frozenset[int]]:
    """For each control node the results that are read, by what is itself read."""
    live = set(program.outputs)
    picked: dict[Node, set[int]] = {}
    found: dict[Node, frozenset[int]] = {}
    for node in reversed(program.nodes):
        if node.op.family == "control":
            if node in picked:
                found[node] = frozenset(picked[node])
                needed = _NEEDED[node.op.name](node, found[node])
                live.update(node.inputs[position] for position in needed)
        elif node in live:
            if node.op is PICK and node.inputs[0].op.family == "control":
                picked.setdefault(node.inputs[0], set()).add(node.params[0])
            live.update(node.inputs)
    return found


class _Writer:
    """Appends nodes to a program that is being written."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes

    def __call__(self, name: str, inputs: Sequence[Node], params: tuple[Any, ...]) -> Node:
        op = REGISTRY[name]
        of: Any = op.spec(*[node.spec for node in inputs], **op.keywords(params))
        found = Node(op, tuple(inputs), params, of)
        self.nodes.append(found)
        return found

    def results(self, node: Node, positions: Sequence[int]) -> dict[int, Node]:
        """The outputs of a node, by the numbers that they had before."""
        return {old: self("pick", (node,), (number,)) for number, old in enumerate(positions)}

    def copied(self, roots: Sequence[Node], image: dict[Node, Node]) -> list[Node]:
        """Nodes of a body as nodes here."""
        new = dict(image)
        for node in topological(roots, stop=image.keys()):
            if node not in new:
                inputs = tuple(new[parent] for parent in node.inputs)
                new[node] = Node(node.op, inputs, node.params, node.spec)
                self.nodes.append(new[node])
        return [new[root] for root in roots]


def optimized(body: Program) -> Program:
    """A body after all passes."""
    found = body.derived.get("optimized")
    if found is None:
        from gradtape.optimize import optimize

        small = optimize(body)
        found = closed(small.inputs, small.outputs)
        found.derived["optimized"] = found
        body.derived["optimized"] = found
    return found


def _reads(body: Program, roots: Sequence[Node]) -> set[Node]:
    """The inputs of a body that some of its nodes need."""
    given = set(body.inputs)
    return {node for node in topological(roots, stop=given) if node in given}


# Scans.


@dataclass(frozen=True)
class _Scan:
    """A scan that is being reduced: each operand with its input of the body."""

    constants: list[tuple[Node, Node]]
    carries: list[tuple[Node, Node, Node]]
    sequences: list[tuple[Node, Node]]
    rows: list[Node]
    length: int
    reverse: bool
    recompute: bool

    def body(self) -> Program:
        inputs = [
            *[node for _, node in self.constants],
            *[node for _, node, _ in self.carries],
            *[node for _, node in self.sequences],
        ]
        return closed(inputs, [*[next_ for _, _, next_ in self.carries], *self.rows])

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
        """Operands that the body does not read are dropped."""
        read = _reads(self.body_over_own(), [*[one for _, _, one in self.carries], *self.rows])
        return replace(
            self,
            constants=[pair for pair in self.constants if pair[1] in read],
            sequences=[pair for pair in self.sequences if pair[1] in read],
        )

    def body_over_own(self) -> Program:
        """The body as it is, not copied."""
        inputs = (
            *[node for _, node in self.constants],
            *[node for _, node, _ in self.carries],
            *[node for _, node in self.sequences],
        )
        return Program(inputs, (), ())


def _live_carries(node: Node, used: frozenset[int]) -> tuple[set[int], set[Node]]:
    """The carried values that the used results need, and all inputs of the body that they do."""
    body, constants, carries, *_ = node.params
    live = {position for position in used if position < carries}
    while True:
        roots = [body.outputs[p] for p in sorted(live | used)]
        read = _reads(body, roots)
        more = {n for n in range(carries) if body.inputs[constants + n] in read}
        if more <= live:
            return live, read
        live |= more


def _scan_needs(node: Node, used: frozenset[int]) -> list[int]:
    body, constants, *_ = node.params
    live, read = _live_carries(node, used)
    carried = {constants + number for number in live}
    return [
        position
        for position, given in enumerate(body.inputs)
        if position in carried or given in read
    ]


def _reduced_scan(
    write: _Writer, node: Node, operands: Sequence[Any], used: frozenset[int]
) -> dict[int, Node]:
    body, constants, carries, length, reverse, recompute = node.params
    first = constants + carries
    live, read = _live_carries(node, used)
    # What is handed on unchanged is a constant.
    same = {n for n in live if body.outputs[n] is body.inputs[constants + n]}
    fixed = [p for p in range(constants) if body.inputs[p] in read]
    fixed += [constants + n for n in sorted(same)]
    moving = sorted(live - same)
    rows = sorted(position for position in used if position >= carries)
    scan = _Scan(
        [(operands[p], body.inputs[p]) for p in fixed],
        [(operands[constants + n], body.inputs[constants + n], body.outputs[n]) for n in moving],
        [(operands[p], body.inputs[p]) for p in range(first, len(body.inputs))
         if body.inputs[p] in read],
        [body.outputs[position] for position in rows],
        length, reverse, recompute,
    )  # fmt: skip
    scan = _with_constants(write, scan)
    scan = scan.over(optimized(scan.body())).without_unread()
    scan = _hoisted(write, scan)
    found = {number: operands[constants + number] for number in same if number in used}
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
    inputs = (
        *[operand for operand, _ in scan.constants],
        *[operand for operand, _, _ in scan.carries],
        *[operand for operand, _ in scan.sequences],
    )
    params = (
        scan.body(), len(scan.constants), len(scan.carries), length, reverse, recompute,
    )  # fmt: skip
    made = write("scan", inputs, params)
    numbered = write.results(made, range(len(moving) + len(kept)))
    found.update((number, numbered[at]) for at, number in enumerate(moving))
    for at, positions in enumerate(kept.values(), start=len(moving)):
        found.update((position, numbered[at]) for position in positions)
    return found


def _with_constants(write: _Writer, scan: _Scan) -> _Scan:
    """Operands that are the same in every element, as constants; those of one number, inside."""
    inside: dict[Node, Node] = {}
    constants: list[tuple[Node, Node]] = []
    for operand, given in scan.constants:
        if operand.op.name == "full":
            inside[given] = _full(operand, given)
        else:
            constants.append((operand, given))
    sequences: list[tuple[Node, Node]] = []
    for operand, given in scan.sequences:
        if operand.op.name == "full":
            inside[given] = _full(operand, given)
            continue
        element = _equal_element(write, operand, given)
        if element is None:
            sequences.append((operand, given))
        else:
            constants.append((element, given))
    if not inside:
        return replace(scan, constants=constants, sequences=sequences)
    roots = [*[one for _, _, one in scan.carries], *scan.rows]
    known = {node for _, node in (*constants, *sequences)} | {node for _, node, _ in scan.carries}
    found = _Writer([]).copied(roots, {**inside, **{node: node for node in known}})
    count = len(scan.carries)
    carries = [
        (operand, given, one)
        for (operand, given, _), one in zip(scan.carries, found[:count], strict=True)
    ]
    return replace(
        scan, constants=constants, carries=carries, sequences=sequences, rows=found[count:]
    )


def _full(operand: Node, given: Node) -> Node:
    params = (given.shape, operand.params[1], given.dtype)
    return Node(REGISTRY["full"], (), params, given.spec)


def _equal_element(write: _Writer, operand: Node, given: Node) -> Node | None:
    """The element of a sequence that is one element, stretched."""
    if operand.op.name != "broadcast_to":
        return None
    source = operand.inputs[0]
    if source.ndim == operand.ndim:
        if source.shape[0] != 1:
            return None
        source = write("reshape", (source,), (source.shape[1:],))
    if source.shape == given.shape:
        return source
    return write("broadcast_to", (source,), (given.shape,))


def _hoisted(write: _Writer, scan: _Scan) -> _Scan:
    """What depends on constants alone is computed before the loop. Views cost nothing inside."""
    roots = [*[one for _, _, one in scan.carries], *scan.rows]
    given = {node for _, node in (*scan.constants, *scan.sequences)}
    given |= {node for _, node, _ in scan.carries}
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
    outside = write.copied(list(wanted), image)
    return replace(
        scan, constants=[*scan.constants, *zip(outside, wanted, strict=True)]
    ).without_unread()


def _source(node: Node) -> Node:
    while node.op.name in VIEWS and len(node.inputs) == 1:
        node = node.inputs[0]
    return node


def _may_move(node: Node, length: int) -> bool:
    """Whether a node may be computed even if the loop has no step, and is worth an operand."""
    if node.op.family == "creation" or type(node.spec) is tuple:
        return False
    return not any(
        (one.op.opaque and one.inputs) or (one.op.may_fail and not length)
        for one in topological([node])
    )


# Loops without a fixed length.


def _while_live(node: Node, used: frozenset[int]) -> tuple[set[int], set[Node]]:
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


def _while_needs(node: Node, used: frozenset[int]) -> list[int]:
    _, body, constants, _ = node.params
    live, read = _while_live(node, used)
    carried = {constants + number for number in live}
    return [p for p, given in enumerate(body.inputs) if p in carried or given in read]


def _reduced_while(
    write: _Writer, node: Node, operands: Sequence[Any], used: frozenset[int]
) -> dict[int, Node]:
    condition, body, constants, maximum = node.params
    live, read = _while_live(node, used)
    fixed = [p for p in range(constants) if body.inputs[p] in read]
    moving = sorted(live)
    kept = [*fixed, *[constants + n for n in moving]]
    tested = optimized(closed([condition.inputs[p] for p in kept], condition.outputs))
    step = optimized(closed([body.inputs[p] for p in kept], [body.outputs[n] for n in moving]))
    found = write("while", [operands[p] for p in kept], (tested, step, len(fixed), maximum))
    return write.results(found, [*moving, len(body.outputs)])


# Branches.


def _branch_needs(node: Node, used: frozenset[int]) -> list[int]:
    (branches,) = node.params
    needed = {0}
    for body in branches:
        read = _reads(body, [body.outputs[position] for position in sorted(used)])
        needed |= {p + 1 for p, given in enumerate(body.inputs) if given in read}
    return sorted(needed)


def _reduced_branch(
    write: _Writer, node: Node, operands: Sequence[Any], used: frozenset[int]
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
    found = write("branch", [operands[p] for p in kept], (smaller,))
    return write.results(found, positions)


_NEEDED = {"scan": _scan_needs, "while": _while_needs, "branch": _branch_needs}
_REDUCED = {"scan": _reduced_scan, "while": _reduced_while, "branch": _reduced_branch}
