"""How the structure of seeds passes through ops: element-wise, sums, views, contractions.

Responses: the values of the nodes of a linear graph for every seed, structured if possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from gradtape.autodiff.batch import batch_node
from gradtape.autodiff.seeded import Seeded, Tie, dense_form, untied
from gradtape.config import SMALLER_FACTORS
from gradtape.ir import OPERATORS, Accumulation, Join, Op, Shape, View, topological
from gradtape.ir.node import PICK, Node, apply, constant_value, pick
from gradtape.ops.arrays.movement import permute, reshape_node
from gradtape.ops.arrays.slicing import UNSLICE
from gradtape.ops.elementwise.arithmetic import multiply
from gradtape.ops.families.shapes import broadcast_to
from gradtape.ops.matrices.contraction import AxisLabels, matmul, stretch
from gradtape.ops.matrices.einsum import contract_pair

# Factors: the order in which three factors are contracted, if a response is a product itself.
# Behind a layer of weights V and slopes d, the response of row b to seed o is V[k, o] d[b, k]: as
# large as the batch times the layer. Contracted with the next weights W[k, i], the sum over k of
# d[b, k] (V[k, o] W[k, i]) is one matrix product with a factor that does not depend on the batch,
# and its result lies in memory as the Jacobian of a batch does.


def contract_factors(
    value: Node, labels: AxisLabels, other: Node, theirs: AxisLabels, result: AxisLabels
) -> Node | None:
    """The contraction of `value`, a product of two factors, with `other`.

    One of the factors is multiplied by `other` first, then comes one matrix product. None where
    that would not be smaller, or where the rest is not a matrix product.
    """
    if value.op is not OPERATORS.multiply:
        return None
    size = dict(zip(labels, value.shape, strict=True)) | dict(zip(theirs, other.shape, strict=True))
    summed = tuple(label for label in labels if label in theirs and label not in result)
    if not summed:
        return None
    factors = [essential(factor, labels) for factor in value.inputs]
    best: tuple[int, Node] | None = None
    for (first, its), (second, own) in (factors, factors[::-1]):
        alone = tuple(label for label in own if label not in summed)
        rest = tuple(label for label in result if label in its or label in theirs)
        covered = {*summed} <= {*own} and {*alone, *rest} == {*result}
        if not covered or {*alone} & {*rest} or not alone or not rest:
            continue
        before = _size(size, {*its, *own})
        after = _size(size, (*summed, *rest))
        if after * SMALLER_FACTORS <= before and (best is None or after < best[0]):
            wide = (*summed, *rest)
            product = multiply(stretch(first, its, wide), stretch(other, theirs, wide))
            columns = reshape_node(product, (_size(size, summed), _size(size, rest)))
            order = tuple(own.index(label) for label in (*alone, *summed))
            rows = reshape_node(permute(second, order), (_size(size, alone), _size(size, summed)))
            found = (*alone, *rest)
            shape = tuple(size[label] for label in found)
            turned = tuple(found.index(label) for label in result)
            best = after, permute(reshape_node(matmul(rows, columns), shape), turned)
    return None if best is None else best[1]


def _size(size: dict[str, int], labels: Iterable[str]) -> int:
    return math.prod(size[label] for label in labels)


def essential(node: Node, labels: AxisLabels) -> tuple[Node, AxisLabels]:
    """A value without the axes along which it is constant; `labels` may be more than its axes."""
    labels = labels[len(labels) - node.ndim :]
    while True:
        parent = _without_constant_axes(node)
        if parent is None:
            break
        if node.op.view is View.PERMUTE:
            labels = tuple(labels[node.params[0].index(axis)] for axis in range(parent.ndim))
        elif node.op.view is View.RESHAPE:
            long = iter([label for label, n in zip(labels, node.shape, strict=True) if n != 1])
            labels = tuple("" if n == 1 else next(long) for n in parent.shape)
        else:
            labels = labels[len(labels) - parent.ndim :]
        node = parent
    kept = [axis for axis, n in enumerate(node.shape) if n != 1]
    shape = tuple(node.shape[axis] for axis in kept)
    return reshape_node(node, shape), tuple(labels[axis] for axis in kept)


def _without_constant_axes(node: Node) -> Node | None:
    """The node with the same elements that is stretched or transposed to this one, if any."""
    if node.op is OPERATORS.multiply:
        return _without_ones(node)
    if node.op.view in (View.BROADCAST, View.PERMUTE):
        return node.inputs[0]
    # A reshape that only adds or drops axes of length 1.
    is_padded = node.op.view is View.RESHAPE and _long(node) == _long(node.inputs[0])
    return node.inputs[0] if is_padded else None


def _long(node: Node) -> list[int]:
    return [n for n in node.shape if n != 1]


def _without_ones(node: Node) -> Node | None:
    """The other factor of a product with ones."""
    for factor, other in (node.inputs, node.inputs[::-1]):
        source = factor
        while source.op.view in (View.BROADCAST, View.RESHAPE, View.PERMUTE):
            source = source.inputs[0]
        if constant_value(source) == 1:
            return other
    return None


Operands = Sequence[Seeded | None]
SeedRule = Callable[[Node, Operands, Shape], Seeded | None]


def rule_of(op: Op) -> SeedRule | None:
    """How the structure of seeds passes through an op; None if it becomes dense there.

    A rule gives None for a node whose result it cannot structure.
    """
    if op.linear is not None:
        return _elementwise
    if op.labels is not None:
        return _contraction
    if op.reduction is Accumulation.SUM:
        return _sum
    if op.join is not None:
        return _joined
    if op is UNSLICE:
        return _slice
    return None if op.view is None else _VIEWS.get(op.view)


def _elementwise(node: Node, operands: Operands, space: Shape) -> Seeded | None:
    linear = node.op.linear
    assert linear is not None
    given = {at: operand for at, operand in enumerate(operands) if operand is not None}
    if any(position not in linear.operands for position in given):
        return None
    if linear.together:
        # A term that is not a response must be zero: otherwise the graph is not linear in the seed.
        if not all(at in given or _is_zero(node.inputs[at]) for at in linear.operands):
            return None
    elif len(given) > 1:
        return None
    shift = [node.ndim - parent.ndim for parent in node.inputs]
    kept = set.intersection(*(_shifted(one.ties, shift[at]) for at, one in given.items()))
    inputs: list[Node] = list(node.inputs)
    dense: tuple[int, ...] = ()
    for position, operand in given.items():
        parent = node.inputs[position]
        loose = [tie for tie in operand.ties if not _shifted([tie], shift[position]).issubset(kept)]
        operand = untied(operand, parent.shape, space, loose)
        dense = operand.dense
        lead = operand.value.shape[: len(dense)]
        inputs[position] = reshape_node(
            operand.value, lead + (1,) * shift[position] + operand.value.shape[len(dense) :]
        )
    value = apply(node.op, tuple(inputs), node.params)
    return Seeded(value, dense, _sorted(kept))


def _is_zero(node: Node) -> bool:
    while node.op.view is View.BROADCAST:
        node = node.inputs[0]
    return bool(constant_value(node) == 0)


def _sorted(ties: Iterable[Tie]) -> tuple[Tie, ...]:
    return tuple(sorted(ties))


def _shifted(ties: Iterable[Tie], by: int) -> set[Tie]:
    return {(axis + by, seed, offset) for axis, seed, offset in ties}


def _is_whole(tie: Tie, shape: Shape, space: Shape) -> bool:
    """Whether a tie pairs every element with the seed of the same number."""
    axis, seed, offset = tie
    return offset == 0 and shape[axis] == space[seed]


def _sum(node: Node, operands: Operands, space: Shape) -> Seeded | None:
    operand = _only(operands)
    axes, keepdims = node.params
    parent = node.inputs[0]
    partial = [t for t in operand.ties if t[0] in axes and not _is_whole(t, parent.shape, space)]
    operand = _full_node_axes(untied(operand, parent.shape, space, partial), parent)
    tied = {axis: seed for axis, seed, _ in operand.ties if axis in axes}
    free = tuple(axis for axis in axes if axis not in tied)
    count = len(operand.dense)
    value = operand.value
    if free:
        value = apply(node.op, (value,), (tuple(count + axis for axis in free), False))
    # The remaining axes: dense seed axes, then node axes; tied ones among them become dense.
    left = [("seed", seed) for seed in operand.dense]
    left += [
        ("seed", tied[axis]) if axis in tied else ("node", axis)
        for axis in range(parent.ndim)
        if axis not in free
    ]
    dense = tuple(sorted((*operand.dense, *tied.values())))
    want = [("seed", seed) for seed in dense]
    want += [("node", axis) for axis in range(parent.ndim) if axis not in axes]
    order = tuple(left.index(entry) for entry in want)
    if order != tuple(range(len(order))):
        value = permute(value, order)
    number = {
        axis: axis if keepdims else axis - sum(gone < axis for gone in axes)
        for axis in range(parent.ndim)
    }
    if keepdims:
        value = reshape_node(value, value.shape[: len(dense)] + node.shape)
    ties = _sorted((number[a], seed, off) for a, seed, off in operand.ties if a not in tied)
    return Seeded(value, dense, ties)


def _only(operands: Operands) -> Seeded:
    """The response of the one operand of an op."""
    (operand,) = operands
    assert operand is not None
    return operand


def _full_node_axes(operand: Seeded, node: Node) -> Seeded:
    """With the node's own axes at full length: a response may be constant along some."""
    count = len(operand.dense)
    full = operand.value.shape[:count] + node.shape
    return Seeded(broadcast_to(operand.value, full), operand.dense, operand.ties)


def _permute(node: Node, operands: Operands, space: Shape) -> Seeded:
    operand = _only(operands)
    (axes,) = node.params
    count = len(operand.dense)
    order = (*range(count), *(count + axis for axis in axes))
    ties = _sorted((axes.index(axis), seed, offset) for axis, seed, offset in operand.ties)
    return Seeded(permute(operand.value, order), operand.dense, ties)


def _broadcast(node: Node, operands: Operands, space: Shape) -> Seeded:
    operand = _only(operands)
    parent = node.inputs[0]
    shift = node.ndim - parent.ndim
    count = len(operand.dense)
    shape = operand.value.shape
    value = reshape_node(operand.value, shape[:count] + (1,) * shift + shape[count:])
    value = broadcast_to(value, shape[:count] + node.shape)
    return Seeded(value, operand.dense, _sorted(_shifted(operand.ties, shift)))


def _reshape(node: Node, operands: Operands, space: Shape) -> Seeded:
    operand = _only(operands)
    parent = node.inputs[0]
    operand = _full_node_axes(operand, parent)
    moved = {
        axis: place
        for axis, _, _ in operand.ties
        if (place := _moved_axis(parent.shape, axis, node.shape)) is not None
    }
    loose = [tie for tie in operand.ties if tie[0] not in moved]
    operand = _full_node_axes(untied(operand, parent.shape, space, loose), parent)
    lead = operand.value.shape[: len(operand.dense)]
    value = reshape_node(operand.value, lead + node.shape)
    ties = _sorted((moved[axis], seed, offset) for axis, seed, offset in operand.ties)
    return Seeded(value, operand.dense, ties)


def _slice(node: Node, operands: Operands, space: Shape) -> Seeded | None:
    """Reading a part, or putting one into zeros: where it begins moves the ties by as much."""
    operand, *moving = operands
    if operand is None or any(one is not None for one in moving):
        return None
    parent = node.inputs[0]
    starts, lengths, steps, shape = node.params
    reads = node.op.view is View.SLICE
    # Axes of the part have the numbers of `lengths`, but for those dropped or added in its shape.
    part_shape = node.shape if reads else parent.shape
    in_part = {
        axis: place
        for axis, length in enumerate(lengths)
        if steps[axis] == 1
        and starts[axis] is not None
        and length > 1
        and (place := _moved_axis(lengths, axis, part_shape)) is not None
    }
    to_result = in_part if reads else {place: axis for axis, place in in_part.items()}
    loose = [tie for tie in operand.ties if tie[0] not in to_result]
    operand = _full_node_axes(untied(operand, parent.shape, space, loose), parent)
    lead = operand.value.shape[: len(operand.dense)]
    count = len(lead)
    params = ((0,) * count + starts, lead + lengths, (1,) * count + steps, lead + shape)
    value = apply(node.op, (operand.value, *node.inputs[1:]), params)
    ties = []
    for axis, seed, offset in operand.ties:
        moved = starts[axis] if reads else -starts[to_result[axis]]
        ties.append((to_result[axis], seed, offset + moved))
    return Seeded(value, operand.dense, _sorted(ties))


def _moved_axis(old: Shape, axis: int, new: Shape) -> int | None:
    """The position of an axis after a reshape that does not merge it with others."""
    if 0 in old:  # nothing is anywhere
        return None
    before = math.prod(old[:axis])
    for place, length in enumerate(new):
        if length == old[axis] and math.prod(new[:place]) == before:
            return place
    return None


def _joined(node: Node, operands: Operands, space: Shape) -> Seeded | None:
    """Concatenation and stacking, along an axis whose tie is given up."""
    (along,) = node.params
    stacked = node.op.join is Join.STACK
    given = {at: operand for at, operand in enumerate(operands) if operand is not None}
    if not all(at in given or _is_zero(parent) for at, parent in enumerate(node.inputs)):
        return None
    kept = set.intersection(*({*operand.ties} for operand in given.values()))
    kept = {tie for tie in kept if stacked or tie[0] != along}
    inputs: list[Node] = list(node.inputs)
    dense: tuple[int, ...] = ()
    lead: Shape = ()
    for position, operand in given.items():
        parent = node.inputs[position]
        loose = [tie for tie in operand.ties if tie not in kept]
        operand = _full_node_axes(untied(operand, parent.shape, space, loose), parent)
        dense, lead = operand.dense, operand.value.shape[: len(operand.dense)]
        inputs[position] = operand.value
    for position, parent in enumerate(node.inputs):
        if position not in given:
            inputs[position] = broadcast_to(parent, lead + parent.shape)
    value = apply(node.op, tuple(inputs), (len(lead) + along,))
    ties = _sorted((a + (stacked and a >= along), seed, offset) for a, seed, offset in kept)
    return Seeded(value, dense, ties)


def _contraction(node: Node, operands: Operands, space: Shape) -> Seeded | None:
    """A tied label that is summed becomes a label of the result: a dense seed axis."""
    assert node.op.labels is not None
    terms, output = node.op.labels(node)
    for labels, parent in zip(terms, node.inputs, strict=True):
        for label, n in zip(labels, parent.shape, strict=True):
            if label in output and n != node.shape[output.index(label)]:
                return None  # a product of matrices that broadcasts one of two batches
    position = 0 if operands[0] is not None else 1
    operand, other = operands[position], operands[1 - position]
    if operand is None or other is not None:
        return None
    own, theirs = terms[position], terms[1 - position]
    parent = node.inputs[position]
    partial = [
        tie
        for tie in operand.ties
        if own[tie[0]] not in output and not _is_whole(tie, parent.shape, space)
    ]
    operand = _full_node_axes(untied(operand, parent.shape, space, partial), parent)
    seed_labels = {seed: chr(0x3B1 + seed) for seed in operand.dense}
    labels = (*(seed_labels[seed] for seed in operand.dense), *own)
    ties: list[Tie] = []
    for axis, seed, offset in operand.ties:
        if own[axis] in output:
            ties.append((output.index(own[axis]), seed, offset))
        else:
            seed_labels[seed] = own[axis]
    dense = tuple(sorted(seed_labels))
    result = (*(seed_labels[seed] for seed in dense), *output)
    pair = (operand.value, labels, node.inputs[1 - position], theirs)
    factored = contract_factors(*pair, result)
    if factored is not None:
        return Seeded(factored, dense, _sorted(ties))
    if position == 1:
        pair = (pair[2], pair[3], pair[0], pair[1])
    return Seeded(contract_pair(*pair, result), dense, _sorted(ties))


_VIEWS: dict[View, SeedRule] = {
    View.RESHAPE: _reshape,
    View.BROADCAST: _broadcast,
    View.PERMUTE: _permute,
    View.SLICE: _slice,
}


def respond(output: Node, seed: Node, start: Seeded, space: Shape) -> Seeded | None:
    """The response of the output of a graph that is linear in `seed`; None if it has none."""
    found: dict[Node, Seeded] = {seed: start}
    # Of nodes with several outputs: these for all seeds, which are one axis in front.
    several: dict[Node, Node | tuple[Node, ...]] = {}
    for node in topological([output], stop={seed}):
        if node in found:
            continue
        if node.op is PICK:
            if node.inputs[0] not in several:
                continue
            value, (position,) = several[node.inputs[0]], node.params
            value = value[position] if isinstance(value, tuple) else pick(value, position)
        else:
            operands = [found.get(parent) for parent in node.inputs]
            if all(operand is None for operand in operands):
                continue
            rule = rule_of(node.op)
            result = None if rule is None else rule(node, operands, space)
            if result is not None:
                found[node] = result
                continue
            # By the op's batch rule: all seed axes are dense, as one axis.
            pairs = zip(node.inputs, operands, strict=True)
            batched = {
                parent: reshape_node(
                    dense_form(one, parent, space).value, (math.prod(space), *parent.shape)
                )
                for parent, one in pairs
                if one is not None
            }
            value = batch_node(node, batched)
        if isinstance(value, tuple) or type(node.spec) is tuple:
            several[node] = value
        else:
            dense = tuple(range(len(space)))
            found[node] = Seeded(reshape_node(value, (*space, *node.shape)), dense, ())
    return found.get(output)
