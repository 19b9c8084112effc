"""The element-wise family: it derives the fields of an Op that works element by element.

A declaration gives the NumPy kernel and the partial derivatives. The family derives the spec,
promotion, both modes of differentiation, masks, samples and the function that records the op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

from gradtape.dtypes import REAL_OF
from gradtape.ir import REGISTRY, Linear, MathFunction, Op, Rule, Spec, Undefined, declare, spec
from gradtape.ir.node import Node, apply, constant, leaf
from gradtape.ops.families import batching, independence, lowering
from gradtape.ops.families.casting import promotion
from gradtape.ops.families.samples import Sample, generator, uniform
from gradtape.ops.families.shapes import broadcast_shapes, broadcast_to, reduce_to
from gradtape.ops.families.signatures import BinaryFunction, NodeLike, UnaryFunction
from gradtape.ops.families.sparsity import RuleInput, elements, stretched
from gradtape.ops.families.vector_code import LlvmRule
from gradtape.trace import Handle, Recording, record, state

Domain = tuple[float, float]
# The rough cost of a call of a mathematical function, in units of one load from memory.
CALL_COST = 8

new: Any = object.__new__
Unary = UnaryFunction
Binary = BinaryFunction


def conjugate(node: Node) -> Node:
    return apply(REGISTRY["conj"], (node,)) if node.dtype.kind == "c" else node


def zeros_like(node: Node) -> Node:
    return constant(0, node.spec)


def scaled(factor: NodeLike, node: Node) -> Node:
    """`factor * node`, where a factor of 1 or -1 costs no product."""
    if type(factor) is Node:
        return node * factor
    if factor == 0:
        return zeros_like(node)
    if factor == 1:
        return node
    return -node if factor == -1 else node * factor


def jvp_of(partials: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """The forward rule that follows from the partial derivatives."""

    def jvp(
        tangents: Sequence[Node | None], y: Node, inputs: tuple[Node, ...], **params: Any
    ) -> Node:
        total = None
        for partial, tangent in zip(partials, tangents, strict=True):
            if tangent is not None:
                term = scaled(partial(y, *inputs, **params), tangent)
                total = term if total is None else total + term
        assert total is not None
        return broadcast_to(total, y.shape)

    return jvp


def vjp_of(partials: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """The reverse rule that follows from the same partial derivatives, conjugated.

    The cotangent has the shape of `y`: reverse mode applies the mask, then undoes broadcasting.
    """

    def vjp(index: int, g: Node, y: Node, inputs: tuple[Node, ...], **params: Any) -> Node:
        factor = partials[index](y, *inputs, **params)
        if type(factor) is Node:
            factor = conjugate(factor)
        return scaled(factor, g)

    return vjp


def mask_of(index: int, mask: Node, y: Node, inputs: tuple[Node, ...], **params: Any) -> Node:
    """Where an operand's cotangent can be nonzero: the mask, `any` over broadcast axes."""
    return reduce_to(mask, inputs[index].shape, "any")


def zero(y: Node, *inputs: Node, **params: Any) -> int:
    """The partial derivative of a step function."""
    return 0


def sparsity_of(partials: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """The sparsity rule: operands broadcast; those with partial derivative `zero` are not read."""

    def sparsity(y: Node, operands: tuple[RuleInput, ...], **params: Any) -> tuple[Any, ...]:
        return tuple(
            stretched(operand.shape, y.shape) if operand.active and not flat else None
            for operand, flat in zip(operands, flats, strict=True)
        )

    flats = [partial is zero for partial in partials]
    return sparsity


def spec_of(name: str, arity: int, result: str) -> Callable[..., Spec]:
    """The spec rule: operands of one dtype broadcast; `result` selects the dtype of the result."""

    def spec_rule(*specs: Spec, **_: Any) -> Spec:
        shape = specs[0].shape if arity == 1 else broadcast_shapes(name, [s.shape for s in specs])
        dtype = specs[0].dtype
        if result == "bool":
            dtype = np.dtype(bool)
        elif result == "real":
            dtype = REAL_OF.get(dtype, dtype)
        return spec(shape, dtype)

    return spec_rule


def samples_of(
    name: str,
    arity: int,
    domains: Sequence[Domain],
    dtypes: Sequence[str],
    sample_params: Sequence[dict[str, Any]],
) -> list[Sample]:
    """Samples in the domains, of several shapes, among them 0-d, empty and broadcast operands."""
    rng = generator(name)
    shapes: list[Any] = [(3,), (), (2, 0)] if arity == 1 else [(2, 3), (3,), (2, 1), (), (0, 3)]
    found = []
    for dtype in dtypes:
        for extra in sample_params:
            for position, shape in enumerate(shapes):
                other = shapes[0] if position < len(shapes) - 1 else (1, 3)
                operand_shapes = [other] * arity
                operand_shapes[position % arity] = shape
                inputs = tuple(
                    uniform(rng, domain, s, dtype)
                    for domain, s in zip(domains, operand_shapes, strict=True)
                )
                found.append(Sample(inputs, dict(extra)))
    return found


# The static type of the declared function follows from `arity` and `params`; the overloads leave
# out the other options.
@overload
def elementwise(*declared: Any, arity: Literal[2], **options: Any) -> Binary: ...
@overload
def elementwise(*declared: Any, params: tuple[str, ...], **options: Any) -> Callable[..., Any]: ...
@overload
def elementwise(*declared: Any, **options: Any) -> Unary: ...
def elementwise(  # type: ignore[misc]
    name: str,
    numpy: Callable[..., Any],
    doc: str,
    example: tuple[str, str],
    *,
    partials: Sequence[Callable[..., Any]] = (),
    jvp: Rule | Undefined | None = None,
    vjp: Rule | Undefined | None = None,
    arity: int = 1,
    promote: str = "float",
    accepts: str = "any",
    result: str = "same",
    domains: Sequence[Domain] = ((-2.0, 2.0),),
    dtypes: Sequence[str] = ("float64",),
    params: tuple[str, ...] = (),
    sample_params: Sequence[dict[str, Any]] = ({},),
    function: MathFunction | None = None,
    of_complex: LlvmRule | None = None,
    llvm: LlvmRule | None = None,
    sparsity: Rule | None = None,
    linear: Linear | None = None,
    simpler: Rule | None = None,
    transparent: bool = False,
    composition: Rule | None = None,
    native: Rule | None = None,
) -> Any:
    """Declare an element-wise op and return the function that records it.

    `dtypes` are the dtypes that `samples` cover; list complex128 if the function takes complex
    operands. `result` is `same`, `bool` or `real` (the real dtype of a complex one).

    `function` is the mathematical function that computes the op in kernels, and `of_complex` the
    rule for complex operands where it differs. Other ops pass `llvm`.
    """
    if llvm is None and function is not None:
        llvm = lowering.call(function, of_complex)
    domains = tuple(domains) * arity if len(domains) == 1 else tuple(domains)
    if partials:
        jvp, vjp = jvp or jvp_of(partials), vjp or vjp_of(partials)
    elif result == "bool" or accepts in ("integer", "whole number"):
        jvp = vjp = Undefined(f"{name} gives no floating-point result")

    op = declare(
        Op(
            name,
            "elementwise",
            params=params,
            spec=spec_of(name, arity, result),
            numpy=numpy,
            promote=promotion(name, promote, accepts),
            jvp=jvp,
            vjp=vjp,
            mask=mask_of,
            linear=linear,
            batch=batching.broadcasting,
            examples=independence.elementwise,
            sparsity=sparsity or (sparsity_of(partials) if partials else elements),
            function=function,
            llvm=llvm,
            compiled_cost=1 if function is None else CALL_COST,
            simpler=simpler,
            transparent=transparent,
            composition=composition,
            native=native,
            samples=lambda: samples_of(name, arity, domains, dtypes, sample_params),
            doc=doc,
        )
    )
    make: Any = {1: unary_function, 2: binary_function}[arity]
    recorder: Any = parametric_function(op, arity) if params else make(op)
    if not params:
        RECORDERS.append(recorder)
    recorder.__name__ = recorder.__qualname__ = name
    recorder.__module__ = "gradtape"
    recorder.__doc__ = f"{doc}\n\n    >>> {example[0]}\n    {example[1]}\n    "
    return recorder


def op_of(function: Callable[..., Any]) -> Op:
    """The op that a function of this family records."""
    op: Op = function.op  # type: ignore[attr-defined]
    return op


# Functions of one and of two operands, which a native recorder may take over (recording.native).
RECORDERS: list[Any] = []


def unary_function(op: Op) -> Unary:
    native: Any = None

    def use(found: Any) -> None:
        nonlocal native
        native = found

    def function(x: Any, /) -> Any:
        if native is not None:
            return native(x)
        recording = state.recording
        try:
            stamp = recording.stamp
            if x.recording is recording:
                a = x.node
            elif type(x) is Node:  # in a derivative rule
                return apply(op, (x,))
            else:
                entered, a = x.computed.entry
                if entered != stamp:
                    # A variable, or a value new to this recording: entering it may flush.
                    a = x.enter(recording)
                    if state.recording is not recording:
                        return record(op, (x,))
            key = (op, a)
            node = recording.interned.get(key)
            if node is not None and node.stamp < stamp:
                node.stamp = stamp
                recording.log.append(node)
            elif recording.is_full() and not state.tapes:
                return record(op, (x,))
            elif node is None:
                node = recording.first_application(key, op, (a,), ())
            else:
                node = recording.twin(key, node)
            # Handle.__init__ written out: the call would cost time.
            handle = new(x.result_class)
            handle.node = node
            handle.recording = recording
            handle.computed = None
            recording.handles.append(handle)
            if recording.closed and handle.computed is None:
                return record(op, (x,))
            return handle
        except AttributeError:
            return record(op, (x,))

    function.op = op  # type: ignore[attr-defined]
    function.use = use  # type: ignore[attr-defined]
    return function


def binary_function(op: Op, otherwise: Callable[..., Any] = record) -> Binary:
    """The recorder of `op`; operands without a node in the recording go to `otherwise`."""
    native: Any = None
    reflected = reflected_function(op)

    def use(found: Any) -> None:
        nonlocal native
        native = found

    def function(x: Any, y: Any, /) -> Any:
        if native is not None:
            return native(x, y)
        # The fast path: if this application was recorded before, two or three look-ups find its
        # node. Operands without a node in the recording go to `record`, which handles all cases.
        recording = state.recording
        try:
            stamp = recording.stamp
            if x.recording is recording:
                a = x.node
            else:
                entered, a = x.computed.entry
                if entered != stamp:
                    # A variable, or a value new to this recording: entering it may flush.
                    a = x.enter(recording)
                    if state.recording is not recording:
                        return otherwise(op, (x, y))
            kind = type(y)
            if kind is float or (kind is int and a.spec.inexact):
                # `scalar_leaf` written out: the call would cost time.
                leaves = recording.leaves
                of = a.spec.scalars.get(kind) or a.spec.scalar(kind)
                b = recording.interned.get((of, len(leaves)))
                if b is None:
                    b = leaf(len(leaves), of)
                leaves.append(y)
            else:
                if y.recording is recording:
                    b = y.node
                else:
                    entered, b = y.computed.entry
                    if entered != stamp:
                        b = y.enter(recording)
                        if state.recording is not recording:
                            return record(op, (x, y))
            key = (op, a, b)
            node = recording.interned.get(key)
            if node is not None and node.stamp < stamp:
                node.stamp = stamp
                recording.log.append(node)
            elif recording.is_full() and not state.tapes:
                return record(op, (x, y))
            elif node is None:
                node = recording.first_application(key, op, (a, b), ())
            else:
                node = recording.twin(key, node)
            # Handle.__init__ written out: the call would cost time.
            handle = new(x.result_class)
            handle.node = node
            handle.recording = recording
            handle.computed = None
            recording.handles.append(handle)
            # As in `record`: a garbage collection may have closed the recording in between.
            if recording.closed and handle.computed is None:
                return record(op, (x, y))
            return handle
        except AttributeError:
            return reflected(y, x) if type(x) in REFLECTED else otherwise(op, (x, y))

    function.op = op  # type: ignore[attr-defined]
    function.otherwise = otherwise  # type: ignore[attr-defined]
    function.use = use  # type: ignore[attr-defined]
    function.reflected = reflected  # type: ignore[attr-defined]
    return function


def reflected_function(op: Op) -> Binary:
    """The recorder of `op` if the tensor is the right operand, as in `1.0 - x`."""

    def function(right: Any, left: Any, /) -> Any:
        recording = state.recording
        b = known_node(recording, right)
        kind = type(left)
        if b is None or not (kind is float or (kind is int and b.spec.inexact)):
            return record(op, (left, right))
        a = scalar_leaf(recording, left, kind, b.spec)
        return application(recording, op, (left, right), (a, b), (), right.result_class)

    return function


def parametric_function(op: Op, arity: int) -> Callable[..., Any]:
    """The recorder of an op with params, which come first, by position, as in `polygamma(1, x)`."""
    count = len(op.params)

    def function(*arguments: Any) -> Any:
        params, operands = arguments[:count], arguments[count:]
        if len(operands) == 1:
            recording = state.recording
            a = known_node(recording, operands[0])
            if a is not None:
                kind = operands[0].result_class
                return application(recording, op, operands, (a,), params, kind)
        return record(op, operands, params)

    function.op = op  # type: ignore[attr-defined]
    return function


REFLECTED = frozenset((float, int))


def known_node(recording: Recording, x: Any) -> Node | None:
    """The node of a handle in this recording, or None if the handle has not entered it."""
    try:
        if x.recording is recording:
            return x.node  # type: ignore[no-any-return]  # a local would cost time
        stamp, node = x.computed.entry
    except AttributeError:
        return None
    return node if stamp == recording.stamp else None


def scalar_leaf(recording: Recording, value: object, kind: type, beside: Spec) -> Node:
    """A new leaf for a Python scalar, whose dtype adapts to an operand with spec `beside`."""
    leaves = recording.leaves
    of = beside.scalars.get(kind) or beside.scalar(kind)
    found = recording.interned.get((of, len(leaves)))
    if found is None:
        found = leaf(len(leaves), of)
    leaves.append(value)
    return found


def application(
    recording: Recording, op: Op, operands: Any, inputs: Any, params: Any, kind: type[Handle]
) -> Any:
    """Record an application to nodes of this recording, and return its handle."""
    key = (op, params, *inputs) if params else (op, *inputs)
    node = recording.interned.get(key)
    if node is not None and node.stamp < recording.stamp:
        node.stamp = recording.stamp
        recording.log.append(node)
    elif recording.is_full() and not state.tapes:
        return record(op, operands, params)
    elif node is None:
        node = recording.first_application(key, op, inputs, params)
    else:
        node = recording.twin(key, node)
    handle = recording.hold(node, kind)
    if recording.closed and handle.computed is None:
        return record(op, operands, params)
    return handle
