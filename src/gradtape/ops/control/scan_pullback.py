"""Reverse mode through a scan: a scan in the other direction over residuals of the first one.

Residuals are the carried values and the results of expensive ops that the backward scan reads, and
of a mathematical function that is carried on if the stack is small; it recomputes the others. The
cotangent of a constant is a sum over all steps. If each term is a product, such as the outer
product for a weight matrix, the factors are stacked and multiplied in one matrix product after the
loop, instead of one for each step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gradtape.config import SMALL_RESIDUAL_STACK
from gradtape.errors import UndefinedRuleError
from gradtape.ir import REGISTRY, Program, closed, of_structure, substitute, topological
from gradtape.ir.node import PICK, Node, apply, outputs, placeholder
from gradtape.ir.origin import follow
from gradtape.ops.control import bodies, loop_rules
from gradtape.ops.control.scan_params import Scan
from gradtape.ops.control.scan_products import Products
from gradtape.ops.families.batching import Flags


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
    follow(node, again)
    return list(outputs(again)[len(scan.body.outputs) :]) if more else []


def _is_worth_saving(node: Node, scan: Scan) -> bool:
    if type(node.spec) is tuple:
        return False
    if node.op.function is not None and node in scan.body.outputs[: scan.carries]:
        return scan.length * node.spec.nbytes <= SMALL_RESIDUAL_STACK
    return node.inputs[0].op.expensive if node.op is PICK else node.op.expensive


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
    key = of_structure("scan pullback", *scan.params[1:], tuple(wanted), given)
    seeds = [cotangent for cotangent in cotangents if cotangent is not None]
    return bodies.by_program(
        scan.body, key, lambda: _pullback(scan, wanted, given), (*inputs, *seeds)
    )


def _pullback(scan: Scan, wanted: Sequence[int], given: Flags) -> tuple[Program, Flags]:
    """The cotangents of wanted inputs, from the inputs and the given cotangents."""
    body, constants, first = scan.body, scan.constants, scan.first
    operands = [placeholder(of) for of in scan.specs(body.inputs)]
    values, known = _forward(scan, operands)
    cotangents = {n: placeholder(values[n].spec) for n, flag in enumerate(given) if flag}
    states, seeds, pulled = loop_rules.pull(scan, body, wanted, given)
    known |= {seed: cotangents[n] for n, seed in seeds.items() if n >= scan.carries}
    # With `recompute`, stacks would take the memory that recomputing is meant to save.
    having = [p for p in wanted if p in pulled]
    fixed = [p for p in having if p < constants]
    products = Products(
        {} if scan.recompute else {p: pulled[p] for p in fixed},
        {*body.inputs[constants:], *seeds.values()},
        scan.length,
        known,
    )
    summed = [p for p in fixed if p not in products.found]
    before = [*[seeds[n] for n in states], *[placeholder(pulled[p].spec) for p in summed]]
    starts = [*map(cotangents.get, states), *[None] * len(summed)]
    initial = list(map(bodies.zero_if_absent, starts, [node.spec for node in before]))
    after = [bodies.zero_if_absent(pulled.get(constants + n), seeds[n].spec) for n in states]
    after += [total + pulled[p] for total, p in zip(before[len(states) :], summed, strict=True)]
    sequences = {p: pulled[p] for p in having if p >= first}
    rows = dict.fromkeys([*sequences.values(), *products.factors])
    finals, stacks = _backward(scan, operands, known, before, initial, after, rows)
    places = {place: stacks[node] for node, place in products.factors.items()}
    found = dict(zip([*[constants + n for n in states], *summed], finals, strict=True))
    found |= {p: stacks[node] for p, node in sequences.items()}
    found |= zip(products.found, substitute(products.found.values(), places), strict=True)
    back = closed((*operands, *cotangents.values()), [found[p] for p in having])
    return back, tuple(p in pulled for p in wanted)


def _forward(scan: Scan, operands: Sequence[Node]) -> tuple[Sequence[Node], dict[Node, Node]]:
    """The outputs of the scan, and the nodes of a step whose values at all steps exist.

    These are its sequences, results and residuals. Residuals are ordinary results of a scan, so
    that higher derivatives need no other rule.
    """
    whole, more = saved(scan)
    body, first, cut = scan.body, scan.first, scan.carries
    values = outputs(apply(REGISTRY["scan"], tuple(operands), replace(scan, body=whole).params))
    known = dict(zip((*body.outputs, *more)[cut:], values[cut:], strict=True))
    known |= zip(body.inputs[first:], operands[first:], strict=True)
    for node in body.inputs[: scan.constants]:
        known.pop(node, None)
    return values, known


def _backward(
    scan: Scan,
    operands: Sequence[Node],
    known: Mapping[Node, Node],
    before: Sequence[Node],
    initial: Sequence[Node],
    after: Sequence[Node],
    wanted: Iterable[Node],
) -> tuple[Sequence[Node], dict[Node, Node]]:
    """A scan in the other direction: the last carried values, and the wanted nodes stacked.

    Carried values are `before` and `after` a step, and `initial` before the first one. `known` has
    the nodes of a step that are stacked already.
    """
    inputs, rows = scan.body.inputs, [node for node in wanted if node not in known]
    stop = {*inputs, *known, *before}
    needed = [node for node in topological([*after, *rows], stop=stop) if node in stop]
    fixed = [at for at, node in enumerate(inputs[: scan.constants]) if node in needed]
    elements = [node for node in needed if node in known]
    step = closed((*[inputs[at] for at in fixed], *before, *elements), (*after, *rows))
    if not step.outputs:
        return (), {**known}
    again = replace(
        scan, body=step, constants=len(fixed), carries=len(before), reverse=not scan.reverse
    )
    given = (*[operands[at] for at in fixed], *initial, *[known[node] for node in elements])
    found = outputs(apply(REGISTRY["scan"], given, again.params))
    cut = len(before)
    return found[:cut], {**known, **dict(zip(rows, found[cut:], strict=True))}
