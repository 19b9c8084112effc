"""From the trace of one example to the recording that the function was called in, batched.

The batched graph is cached by the structure of the trace. A call that was seen before only
applies its nodes again, in their order: to tapes and accumulators outside they are ordinary ops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradtape.autodiff.batch import Batching, PythonRule as PythonRule, Unbatched
from gradtape.autodiff.python_rules import Checkpointed, PythonRules
from gradtape.compiler.counts import COUNTS
from gradtape.control.traced_bodies import bind
from gradtape.errors import NoValueError
from gradtape.ir import (
    LEAF,
    PICK,
    Node,
    Rows,
    Spec,
    apply,
    dependents,
    of_structure,
    pick,
    spec,
    substitute,
    topological,
)
from gradtape.ir.node import leaf
from gradtape.ir.origin import provenance
from gradtape.ops.families.batching import moved, spread
from gradtape.ops.reductions.reduction import SUM
from gradtape.records import dataclass
from gradtape.tape.custom_derivatives import CustomRule
from gradtape.tensor.tensor import Tensor
from gradtape.trace import Handle, Recording, Trace, state


def all_examples(one: Node, size: int) -> Node:
    """The leaf of all examples, under the number of the leaf of one."""
    return leaf(one.params[0], spec((size, *one.shape), one.dtype))


class BatchedGraph:
    """The graph of all examples, over leaves with the numbers of those of one example."""

    def __init__(
        self,
        roots: Sequence[Node],
        checks: Sequence[Node],
        leaves: Sequence[Node],
        size: int,
        python_rule: PythonRule,
    ) -> None:
        self.batching = Batching({one: all_examples(one, size) for one in leaves}, python_rule)
        self.results = self.batching.of(roots)
        # Ops that can fail on values are computed whether or not a result needs them.
        tried = self.batching.of(checks)
        self.checks = [node for node in tried if not isinstance(node, Unbatched)]
        self.size = size

    def result(self, position: int, axis: int | None) -> Node:
        """A result with its axis of examples at `axis`, or as it is where that is None."""
        found = self.results[position]
        if isinstance(found, Unbatched):
            return found.node if axis is None else moved(spread(found.node, self.size), 0, axis)
        return found if axis is None else moved(found, 0, axis)


class OrderedGraph:
    """A batched graph in an order in which it can be applied."""

    def __init__(self, graph: BatchedGraph, axes: Sequence[int | None]) -> None:
        self.batching = graph.batching
        self.outputs = [graph.result(position, axis) for position, axis in enumerate(axes)]
        order = topological([*self.outputs, *graph.checks])
        self.leaves = [node for node in order if node.op is LEAF]
        self.steps = [node for node in order if node.op is not LEAF]
        # Ops that can fail on the values of examples; those that all share were computed before.
        many = {node for node in self.batching.batched.values() if isinstance(node, Node)}
        mixed = dependents(order, many)
        self.fallible = [node for node in self.steps if node.op.may_fail and node in mixed]


class Carrier:
    """Records the graph of a trace in the recording outside it."""

    def __init__(self, trace: Trace, size: int, given: Mapping[Node, Tensor]) -> None:
        self.trace = trace
        self.size = size
        # Tensors of all examples, by the leaf of one, and positions of random draws likewise.
        self.given = given
        self.draws: dict[Node, np.ndarray] = {}
        self._ones: dict[int, Node] = {}

    def batch(self, roots: Sequence[Node]) -> BatchedGraph:
        """The batched graph of these roots of the trace, which must be entered."""
        trace = self.trace
        leaves = (*self.given, *trace.draws)
        checks = tuple(
            n
            for n in trace.log
            if n.op.may_fail and n not in trace.replaced and trace.lacks_value(n)
        )
        derived = trace.table.derived
        key = of_structure("batch", tuple(roots), checks, leaves, self.size)
        found = derived.get(key)
        if found is None:
            COUNTS.batches_built += 1
            found = BatchedGraph(roots, checks, leaves, self.size, self.call_rule)
            if not found.batching.called:
                derived[key] = found
        else:
            COUNTS.batch_hits += 1
        return found

    def steps(self, graph: BatchedGraph, axes: tuple[int | None, ...]) -> OrderedGraph:
        """The results with their axes of examples in place; to be called inside the trace."""
        derived = self.trace.table.derived
        key = of_structure("steps", graph, axes)
        found = derived.get(key)
        if found is None:
            found = OrderedGraph(graph, axes)
            if not graph.batching.called:
                derived[key] = found
        return found

    def call_rule(
        self, node: Node, arguments: tuple[Node, ...], flags: tuple[bool, ...]
    ) -> list[Node]:
        """Call the rule of a `custom_vmap` function in the trace."""
        trace = self.trace
        for argument, flag in zip(arguments, flags, strict=True):
            if flag:
                trace.know_nothing_of(argument)
        handles = [trace.hold(argument, Tensor) for argument in arguments]
        results = node.params[1].run(self.size, flags, handles, node.spec)
        return [
            found.enter(trace) if flag else spread(found.enter(trace), self.size)
            for found, flag in results
        ]

    def record(self, graph: OrderedGraph, kinds: Sequence[type[Tensor]]) -> list[Tensor]:
        """Apply the batched graph outside; the results are handles of these classes."""
        self.draws = self.trace.repeated_draws(self.size)
        self._ones = {one.params[0]: one for one in (*self.given, *self.draws)}
        outer = state.recording
        image = {node: self._bind(outer, node) for node in graph.leaves}
        application = outer.application
        for node in graph.steps:
            if not node.inputs:
                image[node] = apply(node.op, (), node.params)
            elif node.op is PICK:
                image[node] = pick(image[node.inputs[0]], node.params[0])
            else:
                inputs = tuple([image[parent] for parent in node.inputs])
                image[node] = application(node.op, inputs, node.params)
        noted = provenance()
        if noted is not None:
            for node in graph.steps:
                noted.copy(node, image[node])
            noted.carried.update(image[node] for node in graph.steps)
        self._take_rules(outer, graph.batching, image)
        self._take_lines(outer, graph.batching, image)
        handles = [
            outer.hold(image[node], kind) for node, kind in zip(graph.outputs, kinds, strict=True)
        ]
        self._try(outer, [image[node] for node in graph.fallible], handles)
        return handles

    def _bind(self, outer: Recording, node: Node) -> Node:
        """The node outside that a leaf of the batched graph stands for."""
        one = self._ones.get(node.params[0])
        if one is None:
            return bind(self.trace, outer, node)
        if one in self.given:
            return self.given[one].enter(outer)
        return bind(self.trace, outer, one, self.draws[one])

    def _try(self, outer: Recording, nodes: Sequence[Node], handles: list[Tensor]) -> None:
        """Compute ops that can fail on values, as recording them outside a trace would have."""
        nodes = [node for node in nodes if not outer.lacks_value(node)]
        first = [pick(node, 0) if type(node.spec) is tuple else node for node in nodes]
        tried = [outer.hold(node, Handle) for node in first]
        try:
            for handle in tried:
                outer.compute_at_once(handle)
        except BaseException:
            outer.forget((*tried, *handles))
            raise

    def _take_rules(self, outer: Recording, batching: Batching, image: Mapping[Node, Node]) -> None:
        """Carry the Python rules and checkpoints of nodes over to what they became outside."""
        rules = self.trace.rules
        for one, many in batching.custom:
            if many in image and one in rules:
                rule = rules[one]
                if not isinstance(rule, Checkpointed):
                    rule = CarriedRule(self, batching, image, rule, one)
                outer.rules[image[many]] = rule
        self._take_checkpoints(outer, batching, image)
        if isinstance(outer, Trace):
            found = (batching.batched.get(one, one) for one in self.trace.replaced)
            outer.replaced.update(
                image[many] for many in found if isinstance(many, Node) and many in image
            )

    def _take_lines(self, outer: Recording, batching: Batching, image: Mapping[Node, Node]) -> None:
        """Carry over the lines that recorded ops which may fail; one may have become several."""
        own = set(self.trace.log)
        for one, line in self.trace.lines.items():
            if one not in own:  # a node inside the body of a loop, which is not batched itself
                outer.lines[one] = line
            many = batching.batched.get(one, one)
            roots = many if isinstance(many, tuple) else (many,)
            ends = {batching.batched.get(parent, parent) for parent in one.inputs}
            for node in topological(roots, stop=ends):
                if node.op.may_fail and node in image and node not in ends:
                    outer.lines[image[node]] = line

    def _take_checkpoints(
        self, outer: Recording, batching: Batching, image: Mapping[Node, Node]
    ) -> None:
        """Carry over what checkpoints save and compute again; an op may have become several."""
        trace, batched = self.trace, batching.batched
        for one in (*trace.values.recomputed, *trace.values.saved):
            many = batched.get(one, one)
            if not isinstance(many, Node) or many not in image:
                continue
            ends = {batched.get(parent, parent) for parent in one.inputs}
            if not any(isinstance(end, tuple) for end in ends):
                between = topological([many], stop=ends)
                outer.values.recomputed.update(
                    image[node] for node in between if node in image and node not in ends
                )
            if one in trace.values.saved:
                outer.values.recomputed.discard(image[many])
                outer.values.saved.add(image[many])

    def carry(
        self,
        recording: Recording,
        batching: Batching,
        image: Mapping[Node, Node],
        nodes: Sequence[Node],
    ) -> list[Node]:
        """More nodes of the batched graph as nodes outside, not counted as applications."""
        replacement = dict(image)
        for node in topological(nodes, stop=replacement.keys()):
            if node.op is LEAF and node not in replacement:
                replacement[node] = self._bind(recording, node)
        found = substitute(nodes, replacement)
        if batching.custom:
            customs = [many for _, many in batching.custom]
            replacement |= dict(zip(customs, substitute(customs, replacement), strict=True))
            self._take_rules(recording, batching, replacement)
        return found


@dataclass(eq=False)
class CarriedRule:
    """A Python rule for all examples: the rule of one example, called in its trace and batched."""

    carrier: Carrier
    batching: Batching
    image: Mapping[Node, Node]
    rule: CustomRule
    one: Node

    def pull(self, rules: PythonRules, node: Node, cotangents: Sequence[Node]) -> list[Node | None]:
        """Reverse mode. An operand that all examples share gets the sum of their cotangents."""
        is_many = _is_batched(node.spec[0], self.one.spec[0])
        trace = self.carrier.trace
        with trace.entered():
            seeds = [trace.add_unknown(of) for of in self.one.spec]
            pulled = self.rule.pull(PythonRules(trace), self.one, tuple(seeds))
            batching, found = self._batched(pulled, seeds if is_many else [])
        results = self._carried(rules.recording, batching, found, seeds, cotangents)
        if not is_many:
            return results
        pairs = zip(results, node.inputs, self.one.inputs, strict=True)
        return [None if s is None else self._fitting(s, source, mine) for s, source, mine in pairs]

    def _fitting(self, slope: Node, source: Node, mine: Node) -> Node:
        slope = slope if _is_batched(slope.spec, mine.spec) else spread(slope, self.carrier.size)
        if _is_batched(source.spec, mine.spec):
            return slope
        return apply(SUM, (slope,), ((0,), False))

    def push(
        self, rules: PythonRules, node: Node, tangents: Sequence[Node | None]
    ) -> tuple[Node | None, ...]:
        """Forward mode."""
        is_many = _is_batched(node.spec[0], self.one.spec[0])
        trace = self.carrier.trace
        pairs = list(zip(node.inputs, self.one.inputs, tangents, strict=True))
        with trace.entered():
            seeds = [None if t is None else trace.add_unknown(mine.spec) for _, mine, t in pairs]
            pushed = self.rule.push(PythonRules(trace), self.one, seeds)
            many = [
                seed
                for seed, (source, mine, _) in zip(seeds, pairs, strict=True)
                if seed is not None and _is_batched(source.spec, mine.spec)
            ]
            batching, found = self._batched(pushed, many)
        known = [seed for seed in seeds if seed is not None]
        given = [tangent for tangent in tangents if tangent is not None]
        results = self._carried(rules.recording, batching, found, known, given)
        size = self.carrier.size
        return tuple(
            spread(result, size)
            if result is not None and is_many and not _is_batched(result.spec, of)
            else result
            for result, of in zip(results, self.one.spec, strict=True)
        )

    def _batched(
        self, results: Sequence[Node | Rows | None], seeds: Sequence[Node]
    ) -> tuple[Batching, list[Node | Unbatched | None]]:
        """The results of the rule, batched, inside the trace."""
        known = {k: v for k, v in self.batching.batched.items() if not isinstance(v, tuple)}
        given = {**known, **{seed: all_examples(seed, self.carrier.size) for seed in seeds}}
        batching = Batching(given, self.carrier.call_rule)
        dense = [result.dense() if isinstance(result, Rows) else result for result in results]
        found = iter(batching.of([node for node in dense if node is not None]))
        return batching, [None if node is None else next(found) for node in dense]

    def _carried(
        self,
        recording: Recording,
        batching: Batching,
        found: Sequence[Node | Unbatched | None],
        seeds: Sequence[Node],
        given: Sequence[Node],
    ) -> list[Node | None]:
        """These results outside the trace, with the nodes given in the place of the seeds."""
        image = dict(self.image)
        for seed, node in zip(seeds, given, strict=True):
            image[batching.batched.get(seed, seed)] = node
        nodes = [f.node if isinstance(f, Unbatched) else f for f in found if f is not None]
        carried = iter(self.carrier.carry(recording, batching, image, nodes))
        return [None if one is None else next(carried) for one in found]


def _is_batched(many: Spec, one: Spec) -> bool:
    return many.ndim > one.ndim


class ExampleTrace(Trace):
    """The recording of one example of a function that is called on many."""

    is_batched = True

    __slots__ = ()

    def bind(self, variable: Any, new: Handle) -> bool:
        """Assign a variable outside, where all examples share it."""
        node = new.enter(self)
        if self.lacks_value(node):
            raise NoValueError(
                f"assign: {variable.name} would be given a value that differs from example to "
                f"example, inside {self.name}, where it is one variable for all. Return the value, "
                "and assign outside what you make of it, such as its mean."
            )
        batching = Batching({})
        batching.of([node])
        with self.outside():
            carrier = Carrier(self, 0, {})
            (found,) = carrier.carry(state.recording, batching, {}, [node])
            variable.store(state.recording.hold(found, Tensor))
        return False
