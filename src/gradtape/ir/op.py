"""Op: all properties and rules of one operation, in one frozen record.

No stage compares names of ops or keeps lists of them. What a stage needs is a rule or a
field here, filled by the op's declaration or by its family (`gradtape.ops.families`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from gradtape.errors import UndefinedRuleError
from gradtape.ir.math_function import MathFunction
from gradtape.ir.op_facts import Accumulation, Join, Linear, Spectrum, View

if TYPE_CHECKING:
    from gradtape.ops.families.vector_code import LlvmRule

Rule = Callable[..., Any]


@dataclass(frozen=True)
class Undefined:
    """A rule that is missing on purpose; asking for it raises the sentence.

    >>> gt.extend.Undefined("its values are labels").why
    'its values are labels'
    """

    why: str

    def refuse(self, op: str, rule: str) -> NoReturn:
        """Raise the error that names the op and the rule."""
        raise UndefinedRuleError(f"{op}: {rule} is undefined: {self.why}")


def no_samples() -> list[Any]:
    return []


def _of_family(*families: str, others: bool = False) -> Any:
    """A fact that holds for the ops of some families, or for those of all others."""
    return field(init=False, repr=False, metadata={"families": families, "others": others})


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
    | batch | `batch(inputs, batched, y, **params)` → for many examples; families/batching.py |
    | sparsity | `sparsity(y, operands, **params)` → which elements it reads; families/sparsity.py |
    | samples | `samples()` → list of Sample, inputs for the generated tests |
    | llvm | `llvm(builder, *vectors, **params)` → vector, in kernels; families/vector_code.py |
    | simpler | `simpler(y)` → a simpler node with the same bits, or None; families/identities.py |
    | composition | `composition(*inputs, **params)` → the result by other ops; below |
    | copies | `copies(y, access)` → the copies that it consists of; families/memory_copies.py |
    | examples | `examples(y, places)` → where the examples are in it; families/independence.py |
    | labels | `labels(y)` → labels of the axes of both operands and of the result, where the op |
    | | multiplies elements and sums over the labels that the result does not have |
    | flops | `flops(y)` → floating-point operations of one application, of a library call |
    | native | `native(y)` → the NativeCall of a routine, for the compiled tier, or None |
    | nest | `nest(y)` → a list of Nest: the loops of sums of products, each of which computes a |
    | | part of the result, for the compiled tier |

    | fact | what it says |
    |---|---|
    | view | the result is a view of the first operand, of which kind |
    | reduction | it combines elements along the axes of its first param, and how |
    | scan | it accumulates along one axis (params axis, reverse), and how |
    | join | it lays its operands side by side, and how |
    | linear | in which operands it is linear (element-wise ops) |
    | spectrum | it gives eigenvalues or singular values, whose vectors have no derivative at ties |
    | transparent | output n has the value of input n: only derivatives distinguish them |
    | counts_elements | its composition holds the number of elements along the reduced axes |
    | solves | it solves linear systems or factors matrices: saved like matrix products |

    `pullback` is for ops with several outputs whose cotangents are one computation. It is given a
    cotangent or None for each output, and the positions of the inputs whose cotangents are wanted,
    and gives a list of those. With it, `vjp` need not be there.

    Rules take and give Nodes (`spec` Specs, `numpy` arrays). `jvp` and `vjp` may be missing one at
    a time: each is derived from the other. Missing both must be said with `Undefined(why)`.

    `composition` is for the compiled tier, which fuses what it is made of. It gives None where the
    op itself is faster, and a tuple for several outputs.
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
    # A value that comes from outside the graph or differs between applications: never shared.
    opaque: bool = False
    # The compiler's rules.
    # Without `llvm`, an element-wise op is not fused: NumPy or a library computes it.
    llvm: LlvmRule | None = None
    # The mathematical function that `llvm` calls, if there is one.
    function: MathFunction | None = None
    # The rough cost of one element, in loads from memory.
    compiled_cost: int = 1
    doc: str = field(default="", repr=False)
    # Properties that other stages read.
    simpler: Rule | None = None
    composition: Rule | None = None
    copies: Rule | None = None
    examples: Rule | None = None
    labels: Rule | None = None
    native: Rule | None = None
    nest: Rule | None = None
    flops: Rule | None = None
    # In NumPy the result shares memory with the operand: in-place writes to it are refused.
    view: View | None = None
    reduction: Accumulation | None = None
    scan: Accumulation | None = None
    join: Join | None = None
    linear: Linear | None = None
    spectrum: Spectrum | None = None
    transparent: bool = False
    solves: bool = False
    counts_elements: bool = False
    # Consequences of the family. Fields, not properties: every walk over a program reads them.
    # Each element of the result is computed from one of each operand, after broadcasting.
    elementwise: bool = _of_family("elementwise")
    # It reads all elements along the axes that its param `axis` names.
    reduces: bool = _of_family("reduction")
    # It sums products of the elements of its operands.
    contracts: bool = _of_family("contraction")
    # Its result consists of elements of its operands.
    moves: bool = _of_family("movement", "indexing")
    # Its result is made of its params alone, and the same in every run.
    constant: bool = _of_family("creation")
    # It is a loop or a branch: it runs closed programs that are its params.
    runs_bodies: bool = _of_family("control")
    # It calls a function of the user while it runs; that is its first param.
    calls_python: bool = _of_family("callback")
    # It needs no Python, no body, no state of random numbers and no rule written by a user.
    self_contained: bool = _of_family("callback", "control", "custom", "random", others=True)

    def __post_init__(self) -> None:
        for each in fields(self):
            if not each.init:
                found = (self.family in each.metadata["families"]) is not each.metadata["others"]
                object.__setattr__(self, each.name, found)

    def __repr__(self) -> str:
        return f"<Op {self.name}>"

    def __reduce__(self) -> Any:
        return find, (self.name, module_of(self))

    def keywords(self, params: tuple[Any, ...]) -> dict[str, Any]:
        return dict(zip(self.params, params, strict=True))


REGISTRY: dict[str, Op] = {}
# The globals of the module whose code declared each op.
_MODULES: dict[str, dict[str, Any]] = {}


def declare(op: Op) -> Op:
    """Enter an Op in the registry; a second one of the same name is a mistake.

    Unless an interrupt stopped the import of the module, which is now imported once more.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    module = {} if frame is None else frame.f_globals
    before = _MODULES.get(op.name, module)
    again = before is not module and before.get("__name__") == module.get("__name__")
    if op.name in REGISTRY and not again:
        raise ValueError(f"declare: an op named {op.name!r} exists already. Choose another name.")
    if op.jvp is None and op.vjp is None and op.pullback is None:
        raise ValueError(
            f"declare: {op.name} has neither jvp nor vjp. Give one, or Undefined(why)."
        )
    REGISTRY[op.name] = op
    _MODULES[op.name] = module
    return op


def find(name: str, module: str = "") -> Op:
    """The op of a name; `module` is the one that declares it, which may not be loaded yet."""
    if name not in REGISTRY and module.startswith("gradtape."):
        import_module(module)
    return REGISTRY[name]


def module_of(op: Op) -> str:
    """The name of the module that declares an op, which a look-up by name imports first."""
    return str(_MODULES[op.name].get("__name__", ""))
