"""Sparse Jacobians and Hessians of a recording, as SciPy's CSR arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradtape.autodiff.chunks import UNLIMITED, Limits, check_memory
from gradtape.autodiff.dense_jacobians import derive_slope
from gradtape.autodiff.jacobian import jacobian_dtype
from gradtape.autodiff.sparse.known_patterns import (
    Wanted,
    given_pattern,
    hessian_pattern,
    is_auto,
    is_smaller,
    jacobian_pattern,
)
from gradtape.autodiff.sparse.pattern import SparseMatrix
from gradtape.autodiff.sparse.programs import (
    SparseProgram,
    prepare_sparse_hessian,
    prepare_sparse_jacobian,
)
from gradtape.autodiff.window import Window
from gradtape.compiler.counts import COUNTS
from gradtape.errors import NoValueError
from gradtape.ir.derived import Fact
from gradtape.ir.node import Node
from gradtape.runtime.bound_plans import plan_settings
from gradtape.trace.recording import Recording


def sparse_jacobian(
    window: Window,
    target: Node,
    source: Node,
    mode: str,
    wanted: Wanted,
    dense: Callable[[], Any],
    limits: Limits = UNLIMITED,
) -> Any:
    """A CSR array of shape (target.size, source.size), or what `dense` gives if `auto` prefers it.

    None where nothing connects the two.
    """
    if not (target.spec.inexact and source.spec.inexact and window.connected(source, (target,))):
        return None
    given = given_pattern(wanted)
    if is_auto(wanted):
        pattern = jacobian_pattern(window, target, source, given)
        if not is_smaller(pattern, jacobian_dtype(target, source)):
            check_memory(target, source, pattern.notes)
            return dense()
    prepared = prepare_sparse_jacobian(window, target, source, mode, given, limits=limits)
    if not prepared.connected:
        return None
    return _matrix(prepared, window, dense if is_auto(wanted) else None)


def known_sparse_jacobian(recording: Recording, question: tuple[Node, ...]) -> SparseProgram | None:
    """The program that `remember_sparse_jacobian` noted for a target and a source, if any."""
    # What the recording has computed already, and keeps, is an input of the program.
    key = Fact("sparse answer", question, (), plan_settings(recording))
    found: SparseProgram | None = recording.table.derived.get(key)
    if found is not None:
        COUNTS.derivative_hits += 1
    return found


def remember_sparse_jacobian(window: Window, target: Node, source: Node) -> None:
    """Note the program of a question to which there is one answer.

    Its pattern must follow from the graph alone, and not from integers that index.
    """
    if not (target.spec.inexact and source.spec.inexact and window.connected(source, (target,))):
        return
    prepared = prepare_sparse_jacobian(window, target, source, "auto", None)
    if prepared.connected and prepared.of_structure and not prepared.trials:
        recording = window.recording
        key = Fact("sparse answer", (target, source), (), plan_settings(recording))
        recording.table.derived[key] = prepared


def sparse_hessian(
    window: Window,
    target: Node,
    first: Node,
    second: Node,
    wanted: Wanted,
    dense: Callable[[], Any],
    limits: Limits = UNLIMITED,
) -> Any:
    """A CSR array of second derivatives, or what `dense` gives if `auto` prefers it."""
    slope = derive_slope(window, target, first, second)
    if slope is None or derive_slope(window, target, second, second) is None:
        return None
    if first is not second:
        alone = Window(window.recording, frozenset(), None, slope.isolated)
        found = sparse_jacobian(alone, slope.node, slope.by, "auto", wanted, dense, limits)
        return no_entries(first, second) if found is None else found
    given = given_pattern(wanted)
    if is_auto(wanted):
        pattern = hessian_pattern(window, target, first, given)
        if not is_smaller(pattern, first.dtype):
            check_memory(first, first, pattern.notes)
            return dense()
    prepared = prepare_sparse_hessian(window, target, first, "star", given, limits=limits)
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
