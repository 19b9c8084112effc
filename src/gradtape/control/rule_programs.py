"""Rules written in Python, as programs: derivatives and batch rules inside bodies.

A body outlives its trace and may run anywhere, while a rule in Python is a closure over the trace.
So the rule is called once, on arguments without values, and the graph that it records is held by an
op in the place of the closure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gradtape.autodiff.python_rules import Checkpointed, PythonRules
from gradtape.errors import NoValueError
from gradtape.ir import Rows, closed, dependents, spec, substitute, topological
from gradtape.ir.node import LEAF, Node, apply
from gradtape.ops.custom.custom import BARRIER, CUSTOM
from gradtape.ops.custom.custom_body import CUSTOM_BATCH_BODY, CUSTOM_BODY
from gradtape.ops.families.batching import spread
from gradtape.tensor.tensor import Tensor
from gradtape.trace import Trace, record

if TYPE_CHECKING:
    from gradtape.control.custom_vmap import RuleCall

# A rule may call functions with rules that call the first again: no more than this many are nested.
HIGHEST_ORDER = 4


class RulePrograms:
    """Replaces nodes of a trace whose derivative is a Python rule by nodes that hold a program."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.new: dict[Node, Node] = {}
        # The nesting depth of the rules that are being written.
        self.order = 0

    def of(self, roots: Sequence[Node]) -> list[Node]:
        """The same roots without Python rules below them."""
        if not self.trace.rules:
            return list(roots)
        for node in topological(roots, stop=self.new.keys()):
            if node not in self.new:
                self.new[node] = self._written(node)
        return [self.new[root] for root in roots]

    def _written(self, node: Node) -> Node:
        inputs = tuple(self.new[parent] for parent in node.inputs)
        known = node.op is CUSTOM and self.order < HIGHEST_ORDER
        rule = self.trace.rules.get(node) if known else None
        if rule is None:
            same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
            return node if same else apply(node.op, inputs, node.params)
        count = node.params[0]
        seeds = [self.trace.add_unknown(of) for of in node.spec]
        pulled = rule.pull(PythonRules(self.trace), node, tuple(seeds))[count:]
        dense = [slope.dense() if isinstance(slope, Rows) else slope for slope in pulled]
        self.new.update((seed, seed) for seed in seeds)
        self.order += 1
        slopes = self.of([slope for slope in dense if slope is not None])
        self.order -= 1
        if isinstance(rule, Checkpointed):
            slopes, read = self._computed_again(node, slopes)
        else:
            read = _values_read(slopes, seeds)
        having = tuple(slope is not None for slope in dense)
        body = closed((*read, *seeds), slopes)
        return apply(CUSTOM_BODY, (*inputs, *read), (count, having, body))

    def _computed_again(self, node: Node, slopes: Sequence[Node]) -> tuple[list[Node], list[Node]]:
        """The derivative of a checkpoint, as a function of its inputs and of the values it saves.

        Barriers keep an optimiser from sharing recomputed values with the forward pass. In a
        program of its own there is nothing to share with, so they are taken out.
        """
        count = node.params[0]
        ends = {self.new[parent] for parent in node.inputs[count:]} | set(node.inputs[count:])
        ends |= {self.new.get(one, one) for one in self.trace.values.saved}
        barriers = [one for one in topological(slopes, stop=ends) if one.op is BARRIER]
        slopes = substitute(slopes, {one: one.inputs[0] for one in barriers})
        return slopes, [one for one in topological(slopes, stop=ends) if one in ends]


def _values_read(results: Sequence[Node], seeds: Iterable[Node]) -> list[Node]:
    """The values that results read beside their seeds, as far as they have to be inputs.

    Constants have not, nor have ops whose several outputs are picked.
    """
    order = topological(results)
    moving = dependents(order, set(seeds))
    needed = {parent for one in moving for parent in one.inputs} | set(results)
    return [
        one
        for one in order
        if one in needed and one not in moving
        if not one.op.constant and type(one.spec) is not tuple
    ]


def batch_programs(
    trace: Trace,
    call: RuleCall,
    outputs: Sequence[Tensor],
    operands: Sequence[Tensor],
    sizes: Sequence[int],
) -> tuple[Tensor, ...]:
    """The results of a function with a batch rule, which hold the program of the rule.

    The rule is called here, for each number of examples, on arguments that are all batched.
    """
    arguments = [operand.enter(trace) for operand in operands]
    roots = [output.enter(trace) for output in outputs]
    inside = topological(roots, stop=set(arguments))
    if any(n.op is LEAF and n not in arguments and trace.lacks_value(n) for n in inside):
        raise NoValueError(
            f"custom_vmap: {call.name}: it reads a tensor that may differ from example to example "
            "and is not among the arguments. Pass it as an argument."
        )
    made = []
    for size in sizes:
        many = [trace.add_unknown(spec((size, *n.shape), n.dtype)) for n in arguments]
        handles: list[Tensor] = [trace.hold(node, Tensor) for node in many]
        given = call.run(size, [True] * len(many), handles, [root.spec for root in roots])
        results = [
            found.enter(trace) if flag else spread(found.enter(trace), size)
            for found, flag in given
        ]
        made.append((size, many, RulePrograms(trace).of(results)))
    read = _values_read(
        [root for _, _, results in made for root in results],
        [node for _, many, _ in made for node in many],
    )
    rules = tuple((size, closed((*read, *many), results)) for size, many, results in made)
    held = trace.hold_all(read, Tensor)
    params = (len(roots), len(arguments), call.name, rules)
    return record(CUSTOM_BATCH_BODY, (*outputs, *operands, *held), params)
