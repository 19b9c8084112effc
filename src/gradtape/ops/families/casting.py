"""Casts between dtypes, and the promotion rules that insert them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.dtypes import Array, DType, as_dtype, promote, to_inexact
from gradtape.errors import DtypeError
from gradtape.ir import REGISTRY, Linear, Node, Spec, apply, spec
from gradtape.ops.families import identities
from gradtape.ops.families.define import define
from gradtape.ops.families.samples import Sample
from gradtape.ops.families.signatures import DTypeLike, kind_of_operand
from gradtape.trace.record import record

KINDS = {
    "any": "biufc",
    "numeric": "iufc",
    "real": "biuf",
    "real number": "iuf",
    "inexact": "fc",
    "float": "f",
    "integer": "biu",
    "whole number": "iu",
    "bool": "b",
}


def _cast_spec(x: Spec, dtype: DType) -> Spec:
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        raise DtypeError(
            f"cast: {x.dtype} to {dtype} would drop the imaginary part. Use gt.real first."
        )
    return spec(x.shape, dtype)


def _pull_cast(g: Node, y: Node, x: Node, dtype: DType) -> Node | None:
    if x.dtype.kind not in "fc" or dtype.kind not in "fc":
        return None
    if dtype.kind == "c" and x.dtype.kind == "f":
        g = apply(REGISTRY["real"], (g,))
    return cast(g, x.dtype)


def _cast_numpy(x: Array, dtype: DType) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(x).astype(dtype)


CAST = define(
    "cast",
    "elementwise",
    params=("dtype",),
    spec=_cast_spec,
    numpy=_cast_numpy,
    push=lambda t, y, x, dtype: apply(y.op, (t,), (dtype,)) if dtype.kind in "fc" else None,
    pull=_pull_cast,
    mask=lambda index, mask, y, inputs, dtype: mask,
    linear=Linear((0,)),
    llvm=lambda b, x, dtype: b.cast(x, dtype),
    simpler=identities.cast,
    samples=lambda: [
        Sample((np.array([1.5, -2.0, 0.0]),), {"dtype": np.dtype("complex128")}),
        Sample((np.array([1.5, -2.0, 0.0]),), {"dtype": np.dtype("float32")}, order=0),
        Sample((np.array([1.5, -2.0, 0.0]),), {"dtype": np.dtype("int32")}, order=0),
        Sample((np.array([1, 0]),), {"dtype": np.dtype("bool")}),
        Sample((np.array(True),), {"dtype": np.dtype("float64")}),
    ],
)


@kind_of_operand
def cast(x: Any, dtype: DTypeLike) -> Any:
    """Convert to another dtype; differentiable between floating dtypes.

    >>> gt.cast(gt.asarray([1, 2]), gt.float32).dtype
    dtype('float32')
    """
    dtype = as_dtype(dtype)
    if type(x) is Node:
        return x if x.dtype == dtype else apply(CAST, (x,), (dtype,))
    return record(CAST, (x,), (dtype,))


def cast_to(nodes: tuple[Node, ...], dtype: DType) -> tuple[Node, ...]:
    return tuple(cast(node, dtype) for node in nodes)


def promotion(name: str, kind: str, accepted: str) -> Callable[..., Any]:
    """A promote rule that casts to the common dtype (`same`), an inexact (`float`) or `bool`."""
    allowed = KINDS[accepted]

    def rule(inputs: tuple[Node, ...]) -> tuple[Node, ...]:
        dtype = promote(*[node.dtype for node in inputs])
        if kind == "float":
            dtype = to_inexact(dtype)
        elif kind == "bool":
            return cast_to(inputs, np.dtype(bool))
        if dtype.kind not in allowed:
            raise DtypeError(
                f"{name}: dtype {dtype} is not accepted (only {accepted}). Cast with gt.cast first."
            )
        return cast_to(inputs, dtype)

    return rule
