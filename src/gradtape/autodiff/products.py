"""Products of a Jacobian, its adjoint or a Hessian with directions, as plans kept by structure.

A Jacobian at a point is a linear map. Here it is a program whose direction is an input, so a
hundred products, at one point or at many, derive and compile once.
"""

from __future__ import annotations

import numpy as np

from gradtape.autodiff.batch import batch_all
from gradtape.autodiff.jacobian import derive_gradient, derive_slope
from gradtape.autodiff.modes import dense_vjp, forward
from gradtape.autodiff.python_rules import PythonRules
from gradtape.autodiff.window import Window
from gradtape.dtypes import Array
from gradtape.ir import Fact, Node, Spec, constant, placeholder, spec
from gradtape.records import dataclass
from gradtape.runtime.bound_plans import BoundPlan, bind, plan_settings
from gradtape.trace import Recording, Value

# The Jacobian times a direction, its adjoint times a direction, or the Hessian of a scalar.
KINDS = ("push", "pull", "hessian")


@dataclass(frozen=True)
class Product:
    """A linear map as a program; `bound` is None where the map is zero."""

    direction: Node
    result: Spec
    bound: BoundPlan | None

    def __call__(self, recording: Recording, direction: Array) -> Array:
        """The product with one direction, or with the number that the program was made for."""
        of = self.direction.spec
        if self.bound is None:
            return np.zeros(self.result.shape, self.result.dtype)
        value = Value(np.ascontiguousarray(direction, of.dtype).reshape(of.shape), of)
        return self.bound.arrays(recording, {self.direction: value})[0]


def product(
    window: Window, kind: str, target: Node, source: Node, count: int | None = None
) -> Product:
    """The product, one of KINDS, with a direction, or with `count` of them along a new axis 0."""

    def derive(rules: PythonRules) -> Product:
        like, result = (target, source) if kind == "pull" else (source, target)
        if kind == "hessian":
            result = source
        seed, of = placeholder(like.spec), result.spec
        found = _linear(window, rules, kind, target, source, seed)
        if count is not None:
            many, of = (
                placeholder(spec((count, *like.shape), like.dtype)),
                spec((count, *of.shape), of.dtype),
            )
            if found is not None:
                (found,) = batch_all([found], {seed: many}, count)
            seed = many
        return Product(seed, of, None if found is None else bind(window.recording, [found]))

    settings = plan_settings(window.recording)
    key = Fact("product", (kind, target, source, count), (), settings)
    return window.remembered(key, derive)


def _linear(
    window: Window, rules: PythonRules, kind: str, target: Node, source: Node, seed: Node
) -> Node | None:
    """The graph that is linear in `seed`; None where nothing connects target and source."""
    if not window.differentiable(target, source):
        return None
    if kind == "pull":
        return dense_vjp(target, seed, source, window.outside, rules)
    if kind == "hessian":
        slope = derive_slope(window, target, source, source)
        if slope is None:
            return None
        target, window = slope.node, window.of_derivative()
    (pushed,) = forward([target], [source], [seed], window.outside, rules)
    return pushed


def derive_value_and_gradient(window: Window, target: Node, source: Node) -> BoundPlan:
    """A scalar and its gradient, as one program."""

    def derive(_: PythonRules) -> BoundPlan:
        slope = derive_gradient(window, target, source)
        return bind(
            window.recording, [target, constant(0, source.spec) if slope is None else slope]
        )

    settings = plan_settings(window.recording)
    key = Fact("value_and_gradient", (target, source), (), settings)
    return window.remembered(key, derive)
