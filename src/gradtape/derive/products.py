"""Products with derivatives of a recording: programs kept by structure, run on any direction.

A Jacobian at a point is a linear map. Here it is a program whose direction is an input, so that a
hundred products at one point, or at a thousand, derive and compile nothing anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.derive.jacobians import View, derive_gradient, derive_slope
from gradtape.derive.python_rules import PythonRules
from gradtape.evaluate.bound_plans import BoundPlan, bind
from gradtape.graph.node import Node, constant, placeholder
from gradtape.graph.spec import spec
from gradtape.recording.recording import Recording
from gradtape.recording.value import Value
from gradtape.transforms.batch import batch_all
from gradtape.transforms.cotangent import Rows
from gradtape.transforms.forward import forward
from gradtape.transforms.reverse import reverse

# What multiplies a direction: the Jacobian, its adjoint, or the Hessian of a scalar.
KINDS = ("push", "pull", "hessian")


@dataclass(frozen=True)
class Product:
    """A linear map as a program; `bound` is None where the map is zero."""

    direction: Node
    result: Any
    bound: BoundPlan | None

    def __call__(self, recording: Recording, direction: Any) -> Any:
        """The product with one direction, or with as many as the program was made for."""
        of = self.direction.spec
        if self.bound is None:
            return np.zeros(self.result.shape, self.result.dtype)
        value = Value(np.ascontiguousarray(direction, of.dtype).reshape(of.shape), of)
        return self.bound.arrays(recording, {self.direction: value})[0]


def product(view: View, kind: str, target: Node, source: Node, count: int | None = None) -> Product:
    """The product of one of KINDS with a direction, or with `count` of them along a new axis 0."""

    def derive(rules: PythonRules) -> Product:
        like, result = (target, source) if kind == "pull" else (source, target)
        if kind == "hessian":
            result = source
        seed = placeholder(like.spec)
        found = _linear(view, rules, kind, target, source, seed)
        if count is None:
            bound = None if found is None else bind(view.recording, [found])
            return Product(seed, result.spec, bound)
        many = placeholder(spec((count, *like.shape), like.dtype))
        of = spec((count, *result.shape), result.dtype)
        if found is None:
            return Product(many, of, None)
        return Product(many, of, bind(view.recording, batch_all([found], {seed: many}, count)))

    key = ("product", kind, target, source, count, view.recording.available)
    return view.remembered(key, derive)


def _linear(
    view: View, rules: PythonRules, kind: str, target: Node, source: Node, seed: Node
) -> Node | None:
    """The graph that is linear in `seed`; None where nothing connects target and source."""
    if not (target.spec.inexact and source.spec.inexact and view.connected(source, (target,))):
        return None
    if kind == "pull":
        (pulled,) = reverse([target], [seed], [source], view.outside, rules.pull)
        return pulled.dense() if isinstance(pulled, Rows) else pulled
    if kind == "hessian":
        slope = derive_slope(view, target, source, source)
        if slope is None:
            return None
        target, view = slope.node, view.beyond()
    (pushed,) = forward([target], [source], [seed], view.outside, rules.push)
    return pushed


def derive_value_and_gradient(view: View, target: Node, source: Node) -> BoundPlan:
    """A scalar and its gradient, as one program."""

    def derive(_: PythonRules) -> BoundPlan:
        slope = derive_gradient(view, target, source)
        return bind(view.recording, [target, constant(0, source.spec) if slope is None else slope])

    return view.remembered(("value_and_gradient", target, source, view.recording.available), derive)
