"""Reverse mode through a scan: a scan in the other direction over residuals of the first one.

Residuals are the carried values and the results of expensive ops that the backward scan reads, and
of a mathematical function that is carried on if the stack is small; it recomputes the others. The
cotangent of a constant is a sum over all steps. If each term is a product, such as the outer
product for a weight matrix, the factors are stacked and multiplied in one matrix product after the
loop, instead of one for each step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from gradtape.errors import UndefinedRuleError
from gradtape.ir import REGISTRY, Program, Spec, closed, dependents, of_structure, topological
from gradtape.ir.node import PICK, Node, apply, constant, outputs, placeholder
from gradtape.ir.provenance import provenance
from gradtape.ops.control import bodies, loop_rules
from gradtape.ops.control.scan_params import Scan
from gradtape.ops.control.scan_products import Products
from gradtape.records import dataclass

# The source of a node of the backward scan: a kind (see `places`), and a position in that kind.
Source = tuple[str, int]
# Up to so many bytes, which stay in a cache, carried results of a mathematical function are read in
# less time than they are computed in.
SMALL_STACK = 1 << 20


def saved(scan: Scan) -> tuple[Program, tuple[Node, ...]]:
    """The body with residuals as further results, enough for the cotangent of any input.

    The second value is the nodes of the body that are these residuals.
    """
    key = of_structure("scan saved", scan.constants, scan.carries, scan.length, scan.recompute)
    found: tuple[Program, tuple[Node, ...]] = bodies.remembered(
        scan.body, key, lambda: _body_that_saves(scan)
    )
    return found


def _body_that_saves(scan: Scan) -> tuple[Program, tuple[Node, ...]]:
    body, carries = scan.body, scan.carries
    given = tuple(node.spec.inexact for node in body.outputs)
    wanted = [index for index, node in enumerate(body.inputs) if node.spec.inexact]
    varying = bodies.depends(body, body.inputs[scan.constants :])
    known = {*body.inputs, *body.outputs[carries:]}
    if not scan.recompute:
        known.update(
            node for node in body.nodes if node in varying and _is_worth_saving(node, scan)
        )
    try:
        seeds, found = bodies.pulled(body, wanted, given)
    except UndefinedRuleError:
        # Some op has no derivative, but the wanted inputs may not need it: save every candidate.
        seeds, needed = [], known
    else:
        known.update(seeds)
        roots = [node for node in found if node is not None]
        known = _moved_on(known, roots, body)
        needed = {node for node in topological(roots, stop=known) if node in known}
    free = {*body.outputs[carries:], *seeds, *body.inputs}
    carried = body.inputs[scan.constants : scan.first]
    more = [node for node in carried if node in needed]
    more += [node for node in body.nodes if node in needed and node not in free]
    return closed(body.inputs, (*body.outputs, *more)), tuple(more)


def _moved_on(known: set[Node], roots: Sequence[Node], body: Program) -> set[Node]:
    """Replace a residual that only serves to recompute other nodes by these nodes.

    Before: a matrix product is saved and its `tanh` is recomputed. After: the `tanh` is saved,
    which takes no more memory.
    """
    members = {*body.nodes}
    inside = members.difference(body.outputs, roots)
    while True:
        users: dict[Node, set[Node]] = {}
        for node in topological(roots, stop=known):
            if node not in known:
                for parent in node.inputs:
                    users.setdefault(parent, set()).add(node)
        moves = {
            node: others
            for node, others in users.items()
            if node in known and node in inside and others <= members
            if all(type(other.spec) is not tuple and other.spec.inexact for other in others)
            if sum(other.spec.nbytes for other in others) <= node.spec.nbytes
        }
        if not moves:
            return known
        known = known.difference(moves).union(*moves.values())


def residuals(node: Node) -> list[Node]:
    """The residuals of a scan, stacked over its steps, as nodes."""
    scan = Scan.of(node)
    whole, more = saved(scan)
    again = apply(node.op, node.inputs, replace(scan, body=whole).params)
    noted = provenance()
    if noted is not None:
        noted.copy(node, again)
    return list(outputs(again)[len(scan.body.outputs) :]) if more else []


def _is_worth_saving(node: Node, scan: Scan) -> bool:
    if type(node.spec) is tuple:
        return False
    if node.op.function is not None and node in scan.body.outputs[: scan.carries]:
        return scan.length * node.spec.nbytes <= SMALL_STACK
    return node.inputs[0].op.expensive if node.op is PICK else node.op.expensive


@dataclass(frozen=True)
class Backward:
    """The backward scan of a body, and the sources of its operands and results."""

    body: Program
    constants: tuple[int, ...]
    states: tuple[int, ...]
    sums: tuple[Spec, ...]
    sequences: tuple[Source, ...]
    after: Program
    factors: tuple[Source, ...]
    # The source of each wanted input's cotangent.
    results: tuple[Source | None, ...]


def pull_scan(
    wanted: Sequence[int],
    cotangents: Sequence[Node | None],
    y: Sequence[Node],
    inputs: tuple[Node, ...],
    **params: Any,
) -> list[Node | None]:
    """The cotangents of wanted inputs of a scan."""
    scan = Scan(**params)
    given = tuple(cotangent is not None for cotangent in cotangents)
    # Residuals are ordinary results of a scan, so that higher derivatives need no other rule.
    whole, more = saved(scan)

    def build() -> Backward:
        # With `recompute`, stacks would take the memory that recomputing is meant to save.
        return _Making(scan, more).backward(tuple(wanted), given, stacks=not scan.recompute)

    key = of_structure(
        "scan pullback",
        scan.constants,
        scan.carries,
        scan.length,
        scan.recompute,
        tuple(wanted),
        given,
    )
    back: Backward = bodies.remembered(scan.body, key, build)
    if all(result is None for result in back.results):
        return [None] * len(wanted)
    op = REGISTRY["scan"]
    values = outputs(apply(op, inputs, replace(scan, body=whole).params))
    places: dict[str, Sequence[Any]] = {"input": inputs, "output": values, "cotangent": cotangents}
    initial = [bodies.zero_if_absent(cotangents[state], y[state].spec) for state in back.states]
    initial += [constant(0, of) for of in back.sums]
    operands = (
        *[inputs[position] for position in back.constants],
        *initial,
        *[places[kind][number] for kind, number in back.sequences],
    )
    again = Scan(
        back.body, len(back.constants), len(initial), scan.length, not scan.reverse, scan.recompute
    )
    found = outputs(apply(op, operands, again.params))
    places["state"] = found
    places["stacked"] = found[len(initial) :]
    factors = [places[kind][number] for kind, number in back.factors]
    places["after"] = bodies.inlined(back.after, factors)
    return [None if result is None else places[result[0]][result[1]] for result in back.results]


class _Making:
    """Builds the backward scan of a body; use it in a scratch table."""

    def __init__(self, scan: Scan, more: Sequence[Node]) -> None:
        body = self.body = scan.body
        self.scan = scan
        self.constants = scan.constants
        self.carries = scan.carries
        self.first = scan.first
        self.length = scan.length
        self.sources: dict[Node, Source] = {}
        for position, node in enumerate((*body.outputs, *more)):
            if position >= scan.carries and node not in body.inputs[: scan.constants]:
                self.sources.setdefault(node, ("output", position))
        for position in range(self.first, len(body.inputs)):
            self.sources[body.inputs[position]] = ("input", position)

    def backward(
        self, wanted: tuple[int, ...], given: tuple[bool, ...], *, stacks: bool
    ) -> Backward:
        body, constants, first = self.body, self.constants, self.first
        inexact = [p for p in range(constants, first) if body.inputs[p].spec.inexact]
        asked = sorted({*wanted, *inexact})
        states, seed, pulled = loop_rules.pull(self.scan, body, asked, given)
        for number in seed:
            if number >= self.carries:
                self.sources[seed[number]] = ("cotangent", number)
        slopes = [
            bodies.zero_if_absent(pulled.get(constants + n), body.inputs[constants + n].spec)
            for n in states
        ]
        having = [p for p in wanted if p in pulled]
        products = self._products(having if stacks else (), pulled, seed.values())
        summed = [p for p in having if p < constants and p not in products.found]
        sums = [placeholder(body.inputs[p].spec) for p in summed]
        totals = [total + pulled[p] for total, p in zip(sums, summed, strict=True)]
        rows = [p for p in having if p >= first]
        stacked: dict[Node, None] = dict.fromkeys(pulled[p] for p in rows)
        stacked.update((node, None) for node in products.factors if node not in self.sources)
        row_of = {node: at for at, node in enumerate(stacked)}
        written, constant_positions, sequences = self._closed(
            [seed[n] for n in states], sums, [*slopes, *totals, *stacked]
        )
        place: dict[int, Source] = {
            **{constants + n: ("state", at) for at, n in enumerate(states)},
            **{p: ("state", len(states) + at) for at, p in enumerate(summed)},
            **{p: ("stacked", row_of[pulled[p]]) for p in rows},
            **{p: ("after", at) for at, p in enumerate(products.found)},
        }
        factors = [self.sources.get(node) or ("stacked", row_of[node]) for node in products.factors]
        return Backward(
            body=written,
            constants=tuple(constant_positions),
            states=tuple(states),
            sums=tuple(node.spec for node in sums),
            sequences=tuple(sequences),
            after=closed(list(products.factors.values()), list(products.found.values())),
            factors=tuple(factors),
            results=tuple(place.get(p) if p in pulled else None for p in wanted),
        )

    def _products(
        self, having: Sequence[int], pulled: dict[int, Node], seeds: Iterable[Node]
    ) -> Products:
        """The cotangents of constants that are products after the loop."""
        terms = {p: pulled[p] for p in having if p < self.constants}
        order = topological(list(terms.values()))
        varying = dependents(order, {*self.body.inputs[self.constants :], *seeds})
        return Products(terms, varying, self.length, self.sources)

    def _closed(
        self, seeds: Sequence[Node], sums: Sequence[Node], results: Sequence[Node]
    ) -> tuple[Program, list[int], list[Source]]:
        """The body of the backward scan, the positions of its constants, and its sequences."""
        stop = {*self.body.inputs, *self.sources, *seeds, *sums}
        needed = [node for node in topological(results, stop=stop) if node in stop]
        position = {node: at for at, node in enumerate(self.body.inputs)}
        fixed = [node for node in needed if position.get(node, self.constants) < self.constants]
        elements = [node for node in needed if node in self.sources]
        written = closed((*fixed, *seeds, *sums, *elements), results)
        return (
            written,
            [position[node] for node in fixed],
            [self.sources[node] for node in elements],
        )
