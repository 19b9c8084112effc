"""The element-wise family: it derives the fields of an Op that works element by element.

A declaration gives the NumPy kernel and the partial derivatives. The family derives the spec,
promotion, both modes of differentiation, masks, samples and the function that records the op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

from gradtape.config import CALL_COST
from gradtape.dtypes import REAL_OF
from gradtape.ir import REGISTRY, MathFunction, Rule, Spec, spec
from gradtape.ir.math_function import Composition
from gradtape.ir.node import Node, apply, constant
from gradtape.ops.families import lowering
from gradtape.ops.families.casting import KINDS, promotion
from gradtape.ops.families.define import define
from gradtape.ops.families.math_functions import NAMED
from gradtape.ops.families.numpy_body import kernel_of, numpy_kernel
from gradtape.ops.families.samples import DTYPES, Sample, generator, uniform
from gradtape.ops.families.shapes import broadcast_shapes, broadcast_to
from gradtape.ops.families.signatures import BinaryFunction, NodeLike, UnaryFunction
from gradtape.ops.families.sparsity import RuleInput, stretched
from gradtape.ops.families.vector_code import LlvmRule
from gradtape.trace.record import RECORDERS, binary_function, parametric, unary_function

Domain = tuple[float, float]
# The arguments of a call as text, and its result; empty for ops that users do not call.
Example = tuple[str, complex] | tuple[()]
# The promotion of operands by the accepted dtypes of an op; otherwise to their common dtype.
_PROMOTED = {"inexact": "float", "float": "float", "bool": "bool"}

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
    doc: str,
    example: Example = (),
    partials: Sequence[Rule] = (),
    *,
    numpy: Rule | None = None,
    arity: int = 1,
    accepts: str = "inexact",
    result: str = "same",
    domains: Sequence[Domain] = ((-2.0, 2.0),),
    dtypes: Sequence[str] = (),
    sample_params: Sequence[dict[str, Any]] = ({},),
    function: MathFunction | None = None,
    of_complex: LlvmRule | None = None,
    function_of: Callable[..., Composition] | None = None,
    llvm: LlvmRule | None = None,
    **fields: Any,
) -> Any:
    """Declare an element-wise op and return the function that records it.

    `accepts` is a key of KINDS; integers are cast to floats if it is `inexact` or `float`. `result`
    is `same`, `bool` or `real` (the real dtype of a complex one). `fields` are fields of Op.

    The kernel `numpy` is NumPy's function of that name by default. `function` is the mathematical
    function that computes the op in kernels, by default the one of that name, and `of_complex` the
    rule for complex operands where it differs. `function_of(**params)` is the formula of an op for
    these params, which NumPy and kernels compute in double. Other ops pass `llvm`.
    """
    if function_of is not None:
        numpy, llvm = kernel_of(function_of), lowering.in_double(function_of)
    if function is None and llvm is None:
        function = NAMED.get(name)
    if llvm is None and function is not None:
        llvm = lowering.call(function, of_complex)
    domains = tuple(domains) * arity if len(domains) == 1 else tuple(domains)
    dtypes = dtypes or [each for each in DTYPES if np.dtype(each).kind in KINDS[accepts]]
    rules: dict[str, Any] = {}
    if partials:
        rules = {
            "jvp": jvp_of(partials),
            "vjp": vjp_of(partials),
            "sparsity": sparsity_of(partials),
        }
    elif result == "bool" or accepts in ("integer", "whole number"):
        rules = {"undefined": f"{name} gives no floating-point result"}
    op = define(
        name,
        "elementwise",
        spec=spec_of(name, arity, result),
        numpy=numpy or numpy_kernel(name),
        promote=promotion(name, _PROMOTED.get(accepts, "same"), accepts),
        function=function,
        llvm=llvm,
        compiled_cost=CALL_COST if function or function_of else 1,
        samples=lambda: samples_of(name, arity, domains, dtypes, sample_params),
        doc=doc,
        **{**rules, **fields},
    )
    recorder: Any
    if op.params:
        recorder = parametric(op)
    else:
        recorder = unary_function(op) if arity == 1 else binary_function(op)
        RECORDERS.append(recorder)
    recorder.__name__ = recorder.__qualname__ = name
    recorder.__module__ = "gradtape"
    recorder.__doc__ = f"{doc}\n\n    {doctest(name, *example)}\n    " if example else doc
    return recorder


def doctest(name: str, arguments: str, result: complex) -> str:
    """An example of a call and its result, which is rounded if it has many digits."""
    call = f"{type(result).__name__}(gt.{name}({arguments}))"
    if isinstance(result, float) and result != round(result, 3):
        call = f"round({call}, 6)"
    return f">>> {call}\n    {result}"
