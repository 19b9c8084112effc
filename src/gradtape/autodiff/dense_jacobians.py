"""Dense Jacobians, gradients and Hessians of a recording, kept by structure."""

from __future__ import annotations

from gradtape.autodiff.jacobian import batch_jacobian, jacobian
from gradtape.autodiff.modes import dense_vjp
from gradtape.autodiff.python_rules import PythonRules
from gradtape.autodiff.window import Isolated, Window
from gradtape.ir import Node, constant, of_structure, spec
from gradtape.records import dataclass


@dataclass(frozen=True)
class IsolatedGradient:
    """A gradient of an isolated target, to be differentiated by the source `by` in it."""

    node: Node
    by: Node
    isolated: Isolated


def derive_jacobian(window: Window, target: Node, source: Node, mode: str) -> Node | None:
    """The dense Jacobian of one node by another; None where nothing connects them."""

    def derive(rules: PythonRules) -> Node | None:
        if not window.differentiable(target, source):
            return None
        return jacobian(target, window.request(source, mode, rules))

    return window.remembered(of_structure("jacobian", target, source, mode), derive)


def derive_batch_jacobian(window: Window, target: Node, source: Node, mode: str) -> Node | None:
    """The Jacobian of each example; the caller knows that examples are independent."""

    def derive(rules: PythonRules) -> Node | None:
        if not window.differentiable(target, source):
            return None
        return batch_jacobian(target, window.request(source, mode, rules))

    return window.remembered(of_structure("batch_jacobian", target, source, mode), derive)


def derive_gradient(window: Window, target: Node, source: Node) -> Node | None:
    """The gradient of the sum of a target, dense."""
    slope = derive_slope(window, target, source, source)
    return None if slope is None else slope.isolated.restored([slope.node])[0]


def derive_slope(window: Window, target: Node, source: Node, by: Node) -> IsolatedGradient | None:
    """The gradient of the sum of a target by `source`, to be differentiated by another source."""

    def derive(rules: PythonRules) -> IsolatedGradient | None:
        if not window.differentiable(target, source):
            return None
        isolated = window.isolated(target, (source, by))
        inner, (first, second) = isolated.target, isolated.sources
        found = dense_vjp(inner, constant(1, inner.spec), first, (), rules)
        return None if found is None else IsolatedGradient(found, second, isolated)

    return window.remembered(of_structure("slope", target, source, by), derive)


def derive_hessian(window: Window, target: Node, first: Node, second: Node) -> Node | None:
    """The derivative by `second` of the gradient by `first`.

    None where the target does not depend on one of them, zeros where only the gradient does not.
    """

    def derive(rules: PythonRules) -> Node | None:
        slope = derive_slope(window, target, first, second)
        if slope is None or derive_slope(window, target, second, second) is None:
            return None
        found = jacobian(slope.node, window.of_derivative().request(slope.by, "auto", rules))
        if found is None:
            return constant(0, spec(first.shape + second.shape, second.dtype))
        return slope.isolated.restored([found])[0]

    return window.remembered(of_structure("hessian", target, first, second), derive)
