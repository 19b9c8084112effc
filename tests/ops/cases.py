"""Every op of the registry at each of its samples: what the generated tests and fuzzers call."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from gradtape import ops
from gradtape.ir.node import placeholder
from gradtape.ir.op import REGISTRY, Op, Undefined
from gradtape.ir.spec import spec
from gradtape.ops.families.samples import Sample
from gradtape.tensor.tensor import asarray
from gradtape.trace.record import record

# Modules that `import gradtape` leaves for later declare ops too.
for module in pkgutil.walk_packages(ops.__path__, prefix="gradtape.ops."):
    importlib.import_module(module.name)


OPS = [op for op in REGISTRY.values() if op.family != "structure"]


@dataclass(frozen=True)
class Case:
    """An op at one of its samples."""

    op: Op
    sample: Sample
    number: int

    def __str__(self) -> str:
        specs = [spec(array.shape, array.dtype) for array in self.inputs]
        return "-".join([self.op.name, str(self.number), *map(str, specs)])

    @cached_property
    def inputs(self) -> tuple[Any, ...]:
        # Contiguous, as recorded values are: the order of a sum must not depend on strides.
        return tuple(np.array(array, order="C") for array in self.sample.inputs)

    @property
    def params(self) -> tuple[Any, ...]:
        return tuple(self.sample.params[name] for name in self.op.params)

    @cached_property
    def promoted(self) -> tuple[Any, ...]:
        """The specs of the kernel's operands: those of the inputs, cast as the op requires."""
        nodes = tuple(placeholder(spec(array.shape, array.dtype)) for array in self.inputs)
        if self.op.promote is not None:
            nodes = self.op.promote(nodes)
        return tuple(node.spec for node in nodes)

    @cached_property
    def result(self) -> Any:
        """The spec of the result, or a tuple of several; None if the sample is invalid."""
        try:
            return self.op.spec(*self.promoted, **self.sample.params)
        except Exception:  # reported by test_kernel_agrees_with_spec, not while collecting
            return None

    @property
    def results(self) -> tuple[Any, ...]:
        if self.result is None:
            return ()
        return self.result if isinstance(self.result, tuple) else (self.result,)

    @property
    def inexact(self) -> list[int]:
        """Positions of the inputs that a derivative can be taken by."""
        return [i for i, array in enumerate(self.inputs) if array.dtype.kind in "fc"]

    @property
    def differentiable(self) -> bool:
        defined = not isinstance(self.op.vjp, Undefined) and not isinstance(self.op.jvp, Undefined)
        return defined and bool(self.inexact) and any(found.inexact for found in self.results)

    def kernel(self) -> tuple[Any, ...]:
        """What the NumPy kernel itself gives."""
        cast = [
            array.astype(of.dtype) for array, of in zip(self.inputs, self.promoted, strict=True)
        ]
        with np.errstate(all="ignore"):
            found = self.op.numpy(*cast, **self.sample.params)
        return found if isinstance(found, tuple) else (found,)

    def call(self, *given: Any) -> Any:
        """The op on `given` in place of its inexact inputs."""
        operands: list[Any] = [asarray(array) for array in self.inputs]
        for position, operand in zip(self.inexact, given, strict=True):
            operands[position] = operand
        return record(self.op, tuple(operands), self.params)

    def sources(self) -> list[Any]:
        return [asarray(self.inputs[position]) for position in self.inexact]


CASES = [Case(op, sample, number) for op in OPS for number, sample in enumerate(op.samples())]


def at_samples(
    chosen: Callable[[Case], bool] = lambda case: True, most: int | None = None
) -> pytest.MarkDecorator:
    """Run a test with `cases`: those of an op that are chosen, at most so many.

    The first case of an op is a test of its own, and the others are one that is slow.
    """
    found: dict[str, list[Case]] = {}
    for case in CASES:
        if chosen(case):
            found.setdefault(case.op.name, []).append(case)
    params = []
    for name, cases in found.items():
        params.append(pytest.param(cases[:1], id=name))
        if cases[1:most]:
            others = pytest.param(cases[1:most], id=f"{name}-others", marks=pytest.mark.slow)
            params.append(others)
    return pytest.mark.parametrize("cases", params)
