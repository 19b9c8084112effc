"""Add parts: parts that are put into zeros at the same place are added before they are put there.

The derivative by a tensor from which an element was read a thousand times is a sum of a thousand
tensors of the whole size. After this pass it is a sum of as many as there are elements that were
read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from gradtape.compiler.passes.join_parts import ADD, inner_sums, summed, terms_of
from gradtape.compiler.passes.rewrite import Rewriting, readers_of, rewrite
from gradtape.ir import Node, Program, rebuilt
from gradtape.ops.arrays.slicing import UNSLICE


def add_parts(program: Program) -> Program:
    """Before: `unslice(a) + b + unslice(c)` at one place. After: `unslice(a + c) + b`."""
    if sum(node.op is UNSLICE for node in program.nodes) < 2:
        return program
    readers = readers_of(program)
    inner = inner_sums(program, readers)

    def added(node: Node, now: Rewriting) -> Node | None:
        if node.op is not ADD or node in inner:
            return None
        groups = _groups(terms_of(node, inner), node, readers)
        if all(len(group) == 1 for group in groups):
            return None
        return summed((_placed(group, now.new) for group in groups), node.spec)

    return rewrite(program, added)


def _groups(terms: list[Node], whole: Node, readers: Mapping[Node, int]) -> list[list[Node]]:
    """The terms of a sum, those that are parts at one place together.

    Parts come first: they have the shape of the whole, and other terms may be broadcast.
    """
    parts: dict[object, list[Node]] = {}
    others: list[list[Node]] = []
    here = Counter(terms)
    for term in terms:
        if term.op is UNSLICE and term.spec == whole.spec and readers[term] == here[term]:
            source, *moving = term.inputs
            parts.setdefault((source.spec, term.params, tuple(moving)), []).append(term)
        else:
            others.append([term])
    return [*parts.values(), *others]


def _placed(group: list[Node], new: Mapping[Node, Node]) -> Node:
    """The sum of parts, put into zeros once; a term alone as it is."""
    first, *others = group
    if not others:
        return new[first]
    sources = [new[part.inputs[0]] for part in group]
    total = summed(sources, sources[0].spec)
    return rebuilt(first, (total, *(new[each] for each in first.inputs[1:])))
