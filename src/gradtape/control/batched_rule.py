"""Python rules under vmap: a derivative of one example as that of all examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gradtape.autodiff.batch import Batching, Unbatched
from gradtape.autodiff.python_rules import PythonRules
from gradtape.ir import Rows, Spec, spec
from gradtape.ir.node import Node, apply, leaf
from gradtape.ops.families.batching import spread
from gradtape.ops.reductions.reduction import SUM
from gradtape.tape.custom_rules import CustomRule
from gradtape.trace.recording import Recording

if TYPE_CHECKING:
    from gradtape.control.batched_trace import Carrier


def all_examples(one: Node, size: int) -> Node:
    """The leaf of all examples, under the number of the leaf of one."""
    return leaf(one.params[0], spec((size, *one.shape), one.dtype))


class CarriedRule:
    """A Python rule for all examples: the rule of one example, called in its trace and batched."""

    def __init__(
        self,
        carrier: Carrier,
        batching: Batching,
        image: Mapping[Node, Node],
        rule: CustomRule,
        one: Node,
    ) -> None:
        self.carrier = carrier
        self.batching = batching
        self.image = image
        self.rule = rule
        self.one = one

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
