"""Tensors from nothing: structural constants and ranges."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.graph.op import Op, Undefined, declare
from gradtape.graph.spec import Shape, Spec, spec
from gradtape.ops.samples import Sample


def _full_spec(shape: Shape, value: Any, dtype: Any) -> Spec:
    return spec(shape, dtype)


FULL = declare(
    Op(
        "full",
        "creation",
        spec=_full_spec,
        numpy=lambda shape, value, dtype: np.full(shape, value, dtype),
        params=("shape", "value", "dtype"),
        jvp=Undefined("a constant has no operand"),
        vjp=Undefined("a constant has no operand"),
        samples=lambda: [Sample((), {"shape": (2, 3), "value": 1.5, "dtype": np.dtype("float64")})],
    )
)
