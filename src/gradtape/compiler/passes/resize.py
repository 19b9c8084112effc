"""Resize: a program that differs from a known one in its sizes alone is fused as that one was.

Two programs have the same outline if renaming the lengths of axes makes one into the other. The
passes only check of lengths whether two are equal and whether one is 1. So what the passes made of
the first program is right for the second, with the lengths renamed. An op whose composition holds a
number of elements says so, and that number is part of the outline.
"""

from __future__ import annotations

from gradtape.compiler.passes.routine_op import ROUTINE, body_of
from gradtape.compiler.passes.units import Call, Fused, FusedLoop, LoopContent, Registers, Unit
from gradtape.ir import OPERATORS, PICK, Node, Op, Program, Spec, View, spec
from gradtape.ops.families.strides import Access, viewed, whole

AxisLengths = tuple[int, ...]


def outline(program: Program) -> tuple[tuple[object, ...], AxisLengths] | None:
    """The common structure of programs that differ in sizes alone, and the sizes in order.

    None for a program with ops whose params may hold lengths, or with an empty axis.
    """
    names: dict[int, int] = {1: 0}
    known: dict[Spec, tuple[object, ...]] = {}

    def renamed(of: Spec) -> tuple[object, ...]:
        found = known.get(of)
        if found is None:
            found = known[of] = (of.dtype, *[names.setdefault(n, len(names)) for n in of.shape])
        return found

    number: dict[Node, int] = {}
    key: list[object] = []
    for node in program.inputs:
        number[node] = len(number)
        key.append(renamed(node.spec))
    for node in program.nodes:
        op, of = node.op, node.spec
        if op.elementwise:  # nearly all, so this is checked first
            params = node.params
        elif _takes_shape(op):
            params = node.params[1:]
        elif _keeps_params(op):
            params = node.params
        else:
            return None
        if type(of) is tuple:
            return None
        if op.counts_elements:
            # A length that becomes a number of the program: it cannot be renamed.
            params = (*params, node.inputs[0].size // of.size if of.size else 0)
        number[node] = len(number)
        key.append((op, params, known.get(of) or renamed(of), *[number[p] for p in node.inputs]))
    if 0 in names:
        return None
    key.append(tuple([number[node] for node in program.outputs]))
    return tuple(key), tuple(names)


def _takes_shape(op: Op) -> bool:
    """Whether the first param is the shape of the result, and no other param holds a length."""
    return op is OPERATORS.full or op.view in (View.RESHAPE, View.BROADCAST)


def _keeps_params(op: Op) -> bool:
    """Whether no param holds a length: they are compared as they are."""
    if op.nest is not None:
        # Its params are compared with lengths, and so is what it is composed of.
        return False
    return op.elementwise or op.reduces or op.contracts or op.view is View.PERMUTE


def resized(
    program: Program, fused: Fused, inputs: tuple[Node, ...], sizes: dict[int, int]
) -> tuple[Program, Fused] | None:
    """A fused program with other sizes and inputs, or None where that is not sure to be right."""
    if any(isinstance(unit, FusedLoop) and unit.alone for unit in fused.units):
        return None
    new = _resized_nodes(program, inputs, sizes)
    if new is None:
        return None
    nodes = tuple([new[node] for node in program.nodes])
    outputs = tuple([new[node] for node in program.outputs])
    units = [_resized_unit(unit, new, sizes) for unit in fused.units]
    access = _resized_access(fused, new)
    if access is None:
        return None
    constants = {new[node] for node in fused.constants}
    return Program(inputs, nodes, outputs), Fused(units, access, constants)


def _resized_nodes(
    program: Program, inputs: tuple[Node, ...], sizes: dict[int, int]
) -> dict[Node, Node] | None:
    new = dict(zip(program.inputs, inputs, strict=True))
    specs: dict[Spec, Spec] = {}
    for node in program.nodes:
        op = node.op
        if op is ROUTINE and not _keeps_sizes(node, sizes):
            return None
        if op is ROUTINE or (op is PICK and node.inputs[0].op is ROUTINE):
            new[node] = Node(op, tuple([new[p] for p in node.inputs]), node.params, node.spec)
            continue
        # A reduction that is left in spite of its composition is left at all sizes.
        if (op.composition is not None and op.reduction is None) or type(node.spec) is tuple:
            return None
        of = specs.get(node.spec)
        if of is None:
            try:
                shape = tuple([sizes[n] for n in node.spec.shape])
            except KeyError:  # a pass has made a length of its own
                return None
            of = specs[node.spec] = spec(shape, node.spec.dtype)
        params = node.params
        if _takes_shape(op):
            params = (of.shape, *params[1:])
        elif not _keeps_params(op):
            return None
        parents = tuple([new[parent] for parent in node.inputs])
        if op.view is View.RESHAPE and parents[0].size != of.size:
            return None
        new[node] = Node(op, parents, params, of)
    return new


def _keeps_sizes(node: Node, sizes: dict[int, int]) -> bool:
    """Whether no array inside a routine has another size."""
    body = body_of(node)
    inside = [each.spec for each in (*body.inputs, *body.nodes)]
    if any(type(of) is tuple for of in inside):
        return False
    return all(sizes.get(n) == n for of in inside for n in of.shape)


def _resized_unit(unit: Unit, new: dict[Node, Node], sizes: dict[int, int]) -> Unit:
    if isinstance(unit, Call):
        return Call(new[unit.node])
    if isinstance(unit, FusedLoop):
        return _resized_loop(unit, new, sizes)
    return Registers(new[unit.routine], [new[node] for node in unit.outputs])


def _resized_loop(loop: FusedLoop, new: dict[Node, Node], sizes: dict[int, int]) -> FusedLoop:
    content = loop.content
    if content is not None:
        content = LoopContent(
            [new[node] for node in content.reads],
            content.numbers,
            content.body,
            [(value, new[node]) for value, node in content.stores],
            [(value, new[node]) for value, node in content.reductions],
            content.kernels,
        )
    return FusedLoop(
        tuple([sizes[n] for n in loop.space]),
        loop.axes,
        [new[node] for node in loop.nodes],
        {new[node] for node in loop.copies},
        [new[node] for node in loop.outputs],
        {new[node] for node in loop.pointwise},
        content=content,
    )


def _resized_access(fused: Fused, new: dict[Node, Node]) -> dict[Node, Access] | None:
    """The places of values in memory; a value that only its own loop reads has none."""
    nowhere: set[Node] = set()
    stored: set[Node] = set()
    for unit in fused.units:
        if isinstance(unit, FusedLoop):
            nowhere |= unit.pointwise
            stored.update(unit.outputs)
    nowhere -= stored
    access: dict[Node, Access] = {}
    for node, before in fused.access.items():
        if node in nowhere:
            continue
        now = new[node]
        if before.base is node:
            access[now] = whole(now)
            continue
        source = access.get(now.inputs[0])
        found = None if source is None else viewed(now, source)
        if found is None:
            return None
        access[now] = found
    return access
