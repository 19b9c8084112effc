"""Jacobians, gradients and Hessians of a recording, kept by structure; sparse ones are CSR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gradtape.derive.python_rules import PythonRules
from gradtape.derive.sparse_patterns import (
    Wanted,
    given_pattern,
    hessian_pattern,
    is_auto,
    is_smaller,
    jacobian_pattern,
)
from gradtape.derive.sparse_programs import (
    SparseProgram,
    prepare_sparse_hessian,
    prepare_sparse_jacobian,
)
from gradtape.derive.window import Isolated, Window
from gradtape.errors import NoValueError
from gradtape.graph import Node, Rows, constant, spec
from gradtape.sparsity.pattern import SparseMatrix
from gradtape.transforms.jacobian import batch_jacobian, jacobian, jacobian_dtype
from gradtape.transforms.reverse import reverse


@dataclass(frozen=True)
class Slope:
    """A gradient of an isolated target, to be differentiated by the source `by` in it."""

    node: Node
    by: Node
    isolated: Isolated


def derive_jacobian(window: Window, target: Node, source: Node, mode: str) -> Node | None:
    """The dense Jacobian of one node by another; None where nothing connects them."""

    def derive(rules: PythonRules) -> Node | None:
        if not _differentiable(target, source) or not window.connected(source, (target,)):
            return None
        return jacobian(target, window.question(source, mode, rules))

    return window.remembered(("jacobian", target, source, mode), derive)


def derive_batch_jacobian(window: Window, target: Node, source: Node, mode: str) -> Node | None:
    """The Jacobian of each example; the caller knows that examples are independent."""

    def derive(rules: PythonRules) -> Node | None:
        if not _differentiable(target, source) or not window.connected(source, (target,)):
            return None
        return batch_jacobian(target, window.question(source, mode, rules))

    return window.remembered(("batch_jacobian", target, source, mode), derive)


def derive_gradient(window: Window, target: Node, source: Node) -> Node | None:
    """The gradient of the sum of a target, dense."""
    slope = derive_slope(window, target, source, source)
    return None if slope is None else slope.isolated.restored([slope.node])[0]


def derive_slope(window: Window, target: Node, source: Node, by: Node) -> Slope | None:
    """The gradient of the sum of a target by `source`, to be differentiated by another source."""

    def derive(rules: PythonRules) -> Slope | None:
        if not _differentiable(target, source) or not window.connected(source, (target,)):
            return None
        isolated = window.isolated(target, (source, by))
        inner, (first, second) = isolated.target, isolated.sources
        (found,) = reverse([inner], [constant(1, inner.spec)], [first], (), rules.pull)
        if found is None:
            return None
        return Slope(found.dense() if isinstance(found, Rows) else found, second, isolated)

    return window.remembered(("slope", target, source, by), derive)


def derive_hessian(window: Window, target: Node, first: Node, second: Node) -> Node | None:
    """The derivative by `second` of the gradient by `first`.

    None where the target does not depend on one of them, zeros where only the gradient does not.
    """

    def derive(rules: PythonRules) -> Node | None:
        slope = derive_slope(window, target, first, second)
        if slope is None or derive_slope(window, target, second, second) is None:
            return None
        found = jacobian(slope.node, window.of_derivative().question(slope.by, "auto", rules))
        if found is None:
            return constant(0, spec(first.shape + second.shape, second.dtype))
        return slope.isolated.restored([found])[0]

    return window.remembered(("hessian", target, first, second), derive)


def _differentiable(target: Node, source: Node) -> bool:
    return target.spec.inexact and source.spec.inexact


def sparse_jacobian(
    window: Window, target: Node, source: Node, mode: str, wanted: Wanted, dense: Callable[[], Any]
) -> Any:
    """A CSR array of shape (target.size, source.size), or what `dense` gives if `auto` prefers it.

    None where nothing connects the two.
    """
    if not (target.spec.inexact and source.spec.inexact and window.connected(source, (target,))):
        return None
    given = given_pattern(wanted)
    if is_auto(wanted) and not is_smaller(
        jacobian_pattern(window, target, source, given), jacobian_dtype(target, source)
    ):
        return dense()
    prepared = prepare_sparse_jacobian(window, target, source, mode, given)
    if not prepared.connected:
        return None
    return _matrix(prepared, window, dense if is_auto(wanted) else None)


def sparse_hessian(
    window: Window,
    target: Node,
    first: Node,
    second: Node,
    wanted: Wanted,
    dense: Callable[[], Any],
) -> Any:
    """A CSR array of second derivatives, or what `dense` gives if `auto` prefers it."""
    slope = derive_slope(window, target, first, second)
    if slope is None or derive_slope(window, target, second, second) is None:
        return None
    if first is not second:
        alone = Window(window.recording, frozenset(), None)
        found = sparse_jacobian(alone, slope.node, slope.by, "auto", wanted, dense)
        return no_entries(first, second) if found is None else found
    given = given_pattern(wanted)
    if is_auto(wanted) and not is_smaller(
        hessian_pattern(window, target, first, given), first.dtype
    ):
        return dense()
    prepared = prepare_sparse_hessian(window, target, first, "star", given)
    return _matrix(prepared, window, dense if is_auto(wanted) else None)


def _matrix(prepared: SparseProgram, window: Window, otherwise: Callable[[], Any] | None) -> Any:
    """The matrix; `otherwise` makes the dense form where there are no values, as inside vmap."""
    try:
        return prepared.matrix(window.recording)
    except NoValueError:
        if otherwise is None:
            raise
        return otherwise()


def no_entries(target: Node, source: Node) -> SparseMatrix:
    """The matrix of a derivative that is zero everywhere."""
    from scipy.sparse import csr_array  # slow to import

    return csr_array((target.size, source.size), dtype=jacobian_dtype(target, source))
