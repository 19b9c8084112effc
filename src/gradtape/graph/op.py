"""Op: everything the library knows of one operation, in one frozen record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from gradtape.errors import UndefinedRuleError
from gradtape.graph.facts import Accumulation
from gradtape.graph.vector_code import LlvmRule, MathFunction

Rule = Callable[..., Any]


@dataclass(frozen=True)
class Undefined:
    """A rule that is missing on purpose; asking for it raises the sentence.

    >>> gt.extend.Undefined("its values are labels").why
    'its values are labels'
    """

    why: str

    def refuse(self, op: str, rule: str) -> NoReturn:
        raise UndefinedRuleError(f"{op}: {rule} is undefined: {self.why}")


def no_samples() -> list[Any]:
    return []


@dataclass(frozen=True, eq=False, slots=True)
class Op:
    """One operation and all its rules.

    | rule | called as |
    |---|---|
    | spec | `spec(*input_specs, **params)` → Spec, or a tuple of Specs for several outputs |
    | numpy | `numpy(*arrays, **params)` → array, or a tuple |
    | jvp | `jvp(tangents, y, inputs, **params)` → tangent; tangents are None where zero |
    | vjp | `vjp(index, g, y, inputs, **params)` → cotangent of input `index`, or None |
    | pullback | `pullback(wanted, cotangents, y, inputs, **params)` → all of them at once; below |
    | mask | `mask(index, mask, y, inputs, **params)` → where the cotangent of an input is nonzero |
    | promote | `promote(inputs)` → inputs cast to the dtypes the op computes in |
    | batch | `batch(inputs, batched, y, **params)` → for many examples; see ops/batching.py |
    | sparsity | `sparsity(y, operands, **params)` → which elements it reads; see ops.reads |
    | llvm | `llvm(builder, *vectors, **params)` → vector, in kernels; see graph/vector_code.py |
    | samples | `samples()` → list of Sample, inputs for the generated tests |

    `pullback` is for ops with several outputs whose cotangents are one computation. It is given a
    cotangent or None for each output, and the positions of the inputs whose cotangents are wanted,
    and gives a list of those. With it, `vjp` need not be there.

    Rules take and give Nodes (`spec` Specs, `numpy` arrays). `jvp` and `vjp` may be missing one at
    a time: each is derived from the other. Missing both must be said with `Undefined(why)`.
    """

    name: str
    family: str
    spec: Rule
    numpy: Rule
    jvp: Rule | Undefined | None = None
    vjp: Rule | Undefined | None = None
    pullback: Rule | None = None
    mask: Rule | None = None
    promote: Rule | None = None
    batch: Rule | Undefined | None = None
    sparsity: Rule | Undefined | None = None
    samples: Rule = no_samples
    params: tuple[str, ...] = ()
    # Operand positions whose dtypes a Python scalar adapts to; None means all of them.
    weak: tuple[int, ...] | None = None
    # Worth keeping for the backward pass rather than recomputing.
    expensive: bool = False
    # Can fail on values, not only on shapes: evaluated on the line that records it.
    may_fail: bool = False
    # In NumPy the result would share memory with the operand: in-place writes to it are refused.
    view: bool = False
    # A value that comes from outside the graph or differs between applications: never shared.
    opaque: bool = False
    # How the compiler computes it.
    # Without `llvm`, an element-wise op is not fused: NumPy or a library computes it.
    llvm: LlvmRule | None = None
    # The mathematical function that `llvm` calls, if there is one.
    function: MathFunction | None = None
    # The rough cost of one element, in loads from memory.
    compiled_cost: int = 1
    doc: str = field(default="", repr=False)
    reduction: Accumulation | None = None
    scan: Accumulation | None = None

    def __repr__(self) -> str:
        return f"<Op {self.name}>"

    def __reduce__(self) -> Any:
        return find, (self.name,)

    def keywords(self, params: tuple[Any, ...]) -> dict[str, Any]:
        return dict(zip(self.params, params, strict=True))


REGISTRY: dict[str, Op] = {}


def declare(op: Op) -> Op:
    """Enter an Op in the registry; a second one of the same name is a mistake."""
    if op.name in REGISTRY:
        raise ValueError(f"declare: an op named {op.name!r} exists already. Choose another name.")
    if op.jvp is None and op.vjp is None and op.pullback is None:
        raise ValueError(
            f"declare: {op.name} has neither jvp nor vjp. Give one, or Undefined(why)."
        )
    REGISTRY[op.name] = op
    return op


def find(name: str) -> Op:
    return REGISTRY[name]
