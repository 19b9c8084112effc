"""Accumulators: what a reduction carries around its loops, and how two partial results become one.

A partial result is a list of parts: one vector, two for complex numbers (real and imaginary parts)
and for positions (the best value so far, and where it stands).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.codegen.kernels.builder import Vector, scalar_type
from gradtape.codegen.kernels.kernel import Reduce
from gradtape.codegen.kernels.loops import Emitter

Parts = list[str]

_IDENTITY: dict[str, Any] = {"sum": 0, "prod": 1, "any": False, "all": True, "recurrence": 0}
# The position of nothing yet: it loses every tie.
_NOWHERE = 2**63 - 1
_INDEX = np.dtype(np.int64)


class Accumulator:
    """One reduction of a kernel."""

    def __init__(self, e: Emitter, reduction: Reduce) -> None:
        self.e = e
        self.reduction = reduction
        self.kind = reduction.kind

    @property
    def finds_positions(self) -> bool:
        return self.kind in ("argmax", "argmin")

    @property
    def dtype(self) -> Any:
        """The dtype of what is combined."""
        return np.dtype(self.reduction.compared or self.reduction.dtype)

    def types(self) -> Parts:
        """The vector type of each part."""
        vector = self.e.b.vector_type(self.dtype)
        if self.finds_positions:
            return [vector, self.e.b.vector_type(_INDEX)]
        return [vector] * (2 if self.dtype.kind == "c" else 1)

    def start(self) -> Parts:
        """The partial result of nothing."""
        first = self.e.b.constant(self._identity(), self.dtype)
        if self.finds_positions:
            return [first.name, self.e.b.constant(_NOWHERE, _INDEX).name]
        return list(first.parts)

    def _identity(self) -> Any:
        found = _IDENTITY.get(self.kind)
        if found is not None:
            return found
        largest = self.kind in ("max", "argmax")
        if self.dtype.kind == "f":
            return -np.inf if largest else np.inf
        bounds = np.iinfo(self.dtype)
        return bounds.min if largest else bounds.max

    def of(self, value: Vector, position: str | None, mask: str | None) -> Parts:
        """The partial result of one vector of points; what the mask leaves out is the identity."""
        if mask is not None:
            nothing = self.e.b.constant(self._identity(), self.dtype)
            value = self.e.b.select(Vector(mask, np.dtype(bool)), value, nothing)
        if self.finds_positions:
            assert position is not None
            return [value.name, position]
        return list(value.parts)

    def combine(self, x: Parts, y: Parts) -> Parts:
        """Two partial results into one, lane by lane; x comes before y."""
        return self._combine(x, y, self.e.lanes, ordered=True)

    def following(self, state: Parts, values: list[Vector]) -> Parts:
        """The state of a scan after one more step."""
        value = values[self.reduction.value]
        if self.kind != "recurrence":
            return self.combine(state, list(value.parts))
        b = self.e.b
        before = Vector(state[0], self.dtype, *state[1:])
        zero = b.constant(0, self.dtype)
        grown = b.arithmetic("fmul", "mul", values[self.reduction.factor], before, contract=False)
        # A state of 0 takes no part, even times an infinity.
        grown = b.select(b.compare("oeq", "eq", before, zero), zero, grown)
        return list(b.arithmetic("fadd", "add", grown, value, contract=False).parts)

    def _combine(self, x: Parts, y: Parts, lanes: int, ordered: bool) -> Parts:
        b = self.e.b
        dtype = self.dtype
        vector = _vector(scalar_type(dtype), lanes)
        if self.finds_positions:
            return self._better(x, y, vector, lanes, ordered)
        if self.kind == "prod" and dtype.kind == "c":
            (a, c), (d, f) = x, y
            ad, cf, af, cd = (
                b.let(f"fmul {vector} {p}, {q}") for p, q in ((a, d), (c, f), (a, f), (c, d))
            )
            return [b.let(f"fsub {vector} {ad}, {cf}"), b.let(f"fadd {vector} {af}, {cd}")]
        real = dtype.kind in "fc"
        if self.kind in ("sum", "prod"):
            word = {"sum": ("fadd", "add"), "prod": ("fmul", "mul")}[self.kind][0 if real else 1]
        elif self.kind in ("any", "all"):
            word = "or" if self.kind == "any" else "and"
        else:
            return [self._extreme(x[0], y[0], vector, lanes)]
        return [b.let(f"{word} {vector} {p}, {q}") for p, q in zip(x, y, strict=True)]

    def _extreme(self, x: str, y: str, vector: str, lanes: int) -> str:
        """The larger or smaller; NaN wins, as in NumPy."""
        b = self.e.b
        bit = _vector("i1", lanes)
        if self.dtype.kind == "f":
            better = b.let(f"fcmp {'ogt' if self.kind == 'max' else 'olt'} {vector} {x}, {y}")
            unknown = b.let(f"fcmp uno {vector} {x}, {x}")
            choose = b.let(f"or {bit} {better}, {unknown}")
        else:
            word = ("s" if self.dtype.kind == "i" else "u") + ("gt" if self.kind == "max" else "lt")
            choose = b.let(f"icmp {word} {vector} {x}, {y}")
        return b.let(f"select {bit} {choose}, {vector} {x}, {vector} {y}")

    def _better(self, x: Parts, y: Parts, vector: str, lanes: int, ordered: bool) -> Parts:
        """The better value with its position; the first NaN beats everything, ties go to the first.

        Where x comes before y as a whole, y has to be better to be chosen.
        """
        b = self.e.b
        bit, index = _vector("i1", lanes), _vector("i64", lanes)
        word = "gt" if self.kind == "argmax" else "lt"
        real = self.dtype.kind == "f"
        if real:
            # "Unordered or greater": true for a NaN in either.
            choose = b.let(f"fcmp u{word} {vector} {y[0]}, {x[0]}")
            known = b.let(f"fcmp ord {vector} {x[0]}, {x[0]}")
            choose = b.let(f"and {bit} {choose}, {known}")
        else:
            word = ("s" if self.dtype.kind == "i" else "u") + word
            choose = b.let(f"icmp {word} {vector} {y[0]}, {x[0]}")
        if not ordered:
            if real:
                worse = b.let(f"fcmp u{word} {vector} {x[0]}, {y[0]}")
                known = b.let(f"fcmp ord {vector} {y[0]}, {y[0]}")
                worse = b.let(f"and {bit} {worse}, {known}")
            else:
                worse = b.let(f"icmp {word} {vector} {x[0]}, {y[0]}")
            earlier = b.let(f"icmp slt {index} {y[1]}, {x[1]}")
            level = b.let(f"xor {bit} {worse}, {self._ones(lanes)}")
            level = b.let(f"and {bit} {level}, {earlier}")
            choose = b.let(f"or {bit} {choose}, {level}")
        return [
            b.let(f"select {bit} {choose}, {kind} {new}, {kind} {old}")
            for kind, old, new in zip((vector, index), x, y, strict=True)
        ]

    def _ones(self, lanes: int) -> str:
        return "true" if lanes == 1 else "<" + ", ".join(["i1 true"] * lanes) + ">"

    def across(self, parts: Parts) -> Parts:
        """All lanes into one scalar, halving each time."""
        b = self.e.b
        types = [scalar_type(self.dtype)] * len(parts)
        if self.finds_positions:
            types[1] = "i64"
        lanes = self.e.lanes
        while lanes > 1:
            half = lanes // 2
            pairs = [
                _halves(b, value, _vector(ty, lanes), half)
                for value, ty in zip(parts, types, strict=True)
            ]
            low, high = [low for low, _ in pairs], [high for _, high in pairs]
            parts = self._combine(low, high, half, ordered=False)
            lanes = half
        return parts

    def result(self, parts: Parts, lanes: int) -> Parts:
        """What is stored of a final partial result."""
        if not self.finds_positions:
            return parts
        # Nothing was better than the identity: everything equals it, and the first element is it.
        b = self.e.b
        index = _vector("i64", lanes)
        nowhere, zero = str(_NOWHERE), "0"
        if lanes > 1:
            nowhere = b.constant(_NOWHERE, _INDEX).name
            zero = "zeroinitializer"
        none = b.let(f"icmp eq {index} {parts[1]}, {nowhere}")
        chosen = b.let(f"select {_vector('i1', lanes)} {none}, {index} {zero}, {index} {parts[1]}")
        return [chosen]


def _vector(element: str, lanes: int) -> str:
    return f"<{lanes} x {element}>" if lanes > 1 else element


def _halves(b: Any, value: str, vector: str, half: int) -> tuple[str, str]:
    if half == 1:
        low = b.let(f"extractelement {vector} {value}, i32 0")
        return low, b.let(f"extractelement {vector} {value}, i32 1")
    low, high = (
        b.let(
            f"shufflevector {vector} {value}, {vector} poison, <{half} x i32> <"
            + ", ".join(f"i32 {first + i}" for i in range(half))
            + ">"
        )
        for first in (0, half)
    )
    return low, high
