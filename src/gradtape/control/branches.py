"""Branches that are one op: cond and switch.

Their functions are called once, on tensors that have a shape and a dtype but no value. Tensors and
variables that a function reads from outside become operands of the op, so derivatives pass through
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from gradtape.argument_checks import check_function
from gradtape.control.carry import CarriedState, described
from gradtape.control.traced_bodies import (
    BodyTrace,
    Returned,
    TracedBody,
    apply_outside,
    settled,
    trace,
)
from gradtape.errors import DtypeError, ShapeError
from gradtape.ir.node import Node, numbered_placeholder
from gradtape.ir.program import Program
from gradtape.ops.control.branch import BRANCH
from gradtape.ops.control.while_loop import INTEGER
from gradtape.ops.families.casting import cast
from gradtape.pytree import Structure, flatten, leaf_names, unflatten
from gradtape.tensor import Tensor, TensorLike, asarray
from gradtape.trace import Recording, state

R = TypeVar("R")


def cond(
    pred: TensorLike, true_fn: Callable[..., R], false_fn: Callable[..., R], *operands: object
) -> R:
    """`true_fn(*operands)` if `pred` holds when it is computed, else `false_fn(*operands)`.

    >>> x = gt.asarray([1.0, -2.0])
    >>> gt.cond(gt.sum(x) > 0.0, lambda x: x, lambda x: -x, x).tolist()
    [-1.0, 2.0]

    Only the branch that is chosen is computed, now and on the way back. Both must return nests of
    one structure with the same shapes and dtypes. `pred` is one boolean or number; under `vmap`,
    where it may differ between examples, both branches are computed and the results selected.
    """
    chosen = asarray(pred)
    if chosen.shape != ():
        raise ShapeError(
            f"cond: a predicate of shape {chosen.shape} is not a single truth value. "
            "Reduce it with gt.all or gt.any, or choose element by element with gt.where."
        )
    if chosen.dtype.kind != "b":
        chosen = chosen != 0
    return _branch("cond", chosen, [false_fn, true_fn], ["false_fn", "true_fn"], operands)


def switch(index: TensorLike, branches: Sequence[Callable[..., R]], *operands: object) -> R:
    """`branches[index](*operands)`, with the index clamped to those there are.

    >>> double, square = lambda x: 2.0 * x, lambda x: x * x
    >>> float(gt.switch(1, [double, square], 5.0))
    25.0

    Otherwise it is like `cond`.
    """
    if not isinstance(branches, Sequence):
        raise TypeError(
            f"switch: branches is {type(branches).__name__}, not a sequence of functions. Give a "
            "list of them."
        )
    if not branches:
        raise ValueError("switch: there are no branches. Give at least one.")
    chosen = asarray(index)
    if chosen.shape != () or chosen.dtype.kind not in "iu":
        raise DtypeError(
            f"switch: an index of {chosen.spec} is not a single integer. Cast or reduce it."
        )
    names = [f"branch {number}" for number in range(len(branches))]
    return _branch("switch", chosen, list(branches), names, operands)


def _branch(
    name: str,
    index: Tensor,
    functions: Sequence[Callable[..., R]],
    names: Sequence[str],
    arguments: tuple[object, ...],
) -> R:
    for what, function in zip(names, functions, strict=True):
        check_function(f"{name}: {what}", function)
    settled()
    index = cast(index, INTEGER)
    leaves, structure = flatten(arguments)
    given = [asarray(leaf) for leaf in leaves]
    specs = [tensor.spec for tensor in given]
    carried = CarriedState(name)
    traced: list[TracedBody] = []
    try:
        while True:
            shapes = []
            for function in functions:
                call = _calling(function, structure, carried)
                body, shape = trace(name, call, specs, carries=True)
                traced.append(body)
                shapes.append(shape)
            if not carried.grows(*[body.trace for body in traced]):
                break
            for body in reversed(traced):
                body.give_up()
            traced = []
        _check_branches(name, names, traced, shapes)
        outer = state.recording
        inputs, programs = operands_and_programs(outer, traced, given)
        results: list[Tensor] = []
        if traced[0].roots:
            operands = (index.enter(outer), *inputs)
            results = apply_outside(BRANCH, operands, (tuple(programs),), traced)
        cut = shapes[0].count
        carried.assign(results[cut:])
        return unflatten(shapes[0], results[:cut])
    finally:
        for body in traced:
            body.end()


def _calling(
    function: Callable[..., object], structure: Structure, carried: CarriedState
) -> Callable[[BodyTrace, list[Tensor]], Returned[Structure]]:
    def call(made: BodyTrace, arguments: list[Tensor]) -> Returned[Structure]:
        found, shape = flatten(function(*unflatten(structure, arguments)))
        return [*found, *carried.leave(made)], shape

    return call


def _check_branches(
    name: str, names: Sequence[str], traced: Sequence[TracedBody], shapes: Sequence[Structure]
) -> None:
    for number in range(1, len(traced)):
        if shapes[number] != shapes[0]:
            raise ValueError(
                f"{name}: {names[0]} returns {described(shapes[0])} and {names[number]} "
                f"{described(shapes[number])}. Return nests of one structure."
            )
        # The roots after the results are variables that they assign, which keep their spec.
        names_of = leaf_names(shapes[0], "result")
        pairs = zip(names_of, traced[0].roots, traced[number].roots, strict=False)
        for leaf, first, other in pairs:
            if first.spec is not other.spec:
                raise (ShapeError if first.shape != other.shape else DtypeError)(
                    f"{name}: {leaf} is {first.spec} from {names[0]} and {other.spec} from "
                    f"{names[number]}. Return the same shapes and dtypes."
                )


def operands_and_programs(
    outer: Recording, traced: Sequence[TracedBody], given: Sequence[Tensor]
) -> tuple[list[Node], list[Program]]:
    """The operands of an op with several bodies, and their programs, which all take all of them.

    First come the nodes outside that any body reads, each once, then the arguments.
    """
    images = [{body.bind(outer, leaf): leaf for leaf in body.leaves} for body in traced]
    captured = list(dict.fromkeys(node for image in images for node in image))
    programs = []
    for body, image in zip(traced, images, strict=True):
        # A node that only another body reads has a place among the inputs, too.
        free = [
            image.get(node) or numbered_placeholder(-1 - number, node.spec)
            for number, node in enumerate(captured)
        ]
        programs.append(body.program([*free, *body.arguments]))
    return [*captured, *[tensor.enter(outer) for tensor in given]], programs
