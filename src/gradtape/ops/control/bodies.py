"""Bodies: programs that an op holds as params, and their derivative and batched programs.

A body is a closed program, interned by its structure (`graph.program.closed`), so that two loops
that do the same are one node. Programs derived from a body are cached in `body.derived`. The
transforms that derive them lie above ops in the import order and are called through `ir.hooks`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from gradtape.errors import ShapeError
from gradtape.ir import Fact, Program, Spec, closed, dependents, of_structure, spec, substitute
from gradtape.ir.hooks import hooks
from gradtape.ir.node import Node, constant, placeholder, scratch
from gradtape.ir.origin import mark, provenance
from gradtape.ops.families.batching import Flags, spread


def remembered(body: Program, key: Fact, build: Callable[[], Any]) -> Any:
    """The result of `build`, which is called once per body and key and cached in the body."""

    def built() -> Any:
        with scratch():
            return build()

    # A debugger has to see these nodes being made.
    return body.derived.once(key, built) if provenance() is None else built()


def check_specs(name: str, body: Program, given: Sequence[Spec]) -> None:
    """Raise a ShapeError unless a body takes operands of these specs."""
    taken = [node.spec for node in body.inputs]
    if list(given) != taken:
        raise ShapeError(f"{name}: operands {list(given)} do not fit a body that takes {taken}.")


def run(body: Program, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compute the outputs of a body with NumPy kernels, node by node."""
    steps = body.derived.once(_STEPS, lambda: _steps(body))
    values = list(arrays)
    try:
        for kernel, sources in steps[0]:
            values.append(kernel(*[values[source] for source in sources]))
    except Exception as error:
        mark(error, body.nodes[len(values) - len(body.inputs)])
        raise
    return [
        np.asarray(values[number], of.dtype)
        for number, of in zip(steps[1], [node.spec for node in body.outputs], strict=True)
    ]


_STEPS = of_structure("steps")


def _steps(body: Program) -> tuple[list[Any], list[int]]:
    number = {node: index for index, node in enumerate((*body.inputs, *body.nodes))}
    steps = [
        (
            partial(node.op.numpy, **node.keywords) if node.params else node.op.numpy,
            tuple(number[parent] for parent in node.inputs),
        )
        for node in body.nodes
    ]
    return steps, [number[node] for node in body.outputs]


def inlined(body: Program, operands: Sequence[Node]) -> list[Node]:
    """The outputs of a body as nodes of the graph that its operands are in."""
    return substitute(body.outputs, dict(zip(body.inputs, operands, strict=True)))


def depends(body: Program, sources: Sequence[Node]) -> set[Node]:
    """The nodes of a body that depend on any of the sources, including the sources."""
    return dependents((*body.inputs, *body.nodes), set(sources))


def any_node(body: Program, name: str, test: Callable[[Node], bool]) -> bool:
    """Whether a node of a body, or of a body nested in it, passes a test of this name."""
    return body.derived.once(
        of_structure(name),
        lambda: any(
            test(node) or any(any_node(inner, name, test) for inner in held(node))
            for node in body.nodes
        ),
    )


def may_fail(body: Program) -> bool:
    """Whether an op in a body, or in a body nested in it, can fail on values."""
    return any_node(body, "may_fail", lambda node: node.op.may_fail)


def calls_python(body: Program) -> bool:
    """Whether a program, or a body in it, calls a function of the user while it runs."""
    return any_node(body, "calls_python", lambda node: node.op.calls_python)


def held(node: Node) -> list[Program]:
    """The bodies among the params of a node."""
    found: list[Program] = []
    for param in node.params:
        if isinstance(param, Program):
            found.append(param)
        elif isinstance(param, tuple):
            found += [one for one in param if isinstance(one, Program)]
    return found


def by_program(
    body: Program,
    key: Fact,
    build: Callable[[], tuple[Program, Flags]],
    operands: Sequence[Node],
) -> list[Node | None]:
    """The outputs of a program for these operands, and None for each flag that is False.

    The program is built once per body and key.
    """
    program, having = remembered(body, key, build)
    results = iter(inlined(program, operands))
    return [next(results) if flag else None for flag in having]


def pushed(body: Program, active: Flags) -> tuple[Program, Flags]:
    """The body with further inputs, tangents of the active inputs, and tangents as further outputs.

    The flags say which outputs have a tangent.
    """

    def build() -> tuple[Program, Flags]:
        sources = [node for node, flag in zip(body.inputs, active, strict=True) if flag]
        seeds = [placeholder(node.spec) for node in sources]
        tangents = hooks.transforms.forward(body.outputs, sources, seeds)
        known = [tangent for tangent in tangents if tangent is not None]
        found = closed((*body.inputs, *seeds), (*body.outputs, *known))
        return found, tuple(tangent is not None for tangent in tangents)

    return remembered(body, of_structure("pushed", active), build)


def pulled(
    body: Program, wanted: Sequence[int], given: Flags
) -> tuple[list[Node], list[Node | None]]:
    """Placeholders for the cotangents of outputs with a flag, and the wanted inputs' cotangents.

    Call it in a scratch table: the result is a graph over the nodes of the body itself.
    """
    targets = [node for node, flag in zip(body.outputs, given, strict=True) if flag]
    seeds = [placeholder(node.spec) for node in targets]
    sources = [body.inputs[index] for index in wanted]
    found = hooks.transforms.reverse(targets, seeds, sources)
    return seeds, [one.dense() if hasattr(one, "dense") else one for one in found]


def batched(body: Program, flags: Flags, size: int, least: Flags) -> tuple[Program, Flags]:
    """The body for many examples: inputs with a flag have one more axis in front.

    The returned flags say which outputs have this axis; outputs in `least` always do.
    """

    def build() -> tuple[Program, Flags]:
        inputs = [
            placeholder(spec((size, *node.shape), node.dtype)) if flag else node
            for node, flag in zip(body.inputs, flags, strict=True)
        ]
        given = {
            one: many for one, many, flag in zip(body.inputs, inputs, flags, strict=True) if flag
        }
        found = hooks.transforms.batch(body.outputs, given)
        results = []
        having = []
        for one, always in zip(found, least, strict=True):
            shared = not isinstance(one, Node)
            node = one.node if shared else one
            results.append(spread(node, size) if shared and always else node)
            having.append(not shared or always)
        return closed(inputs, results), tuple(having)

    return remembered(body, of_structure("batched", flags, size, least), build)


def zero_if_absent(node: Node | None, of: Spec) -> Node:
    return constant(0, of) if node is None else node
