"""Matrices of derivatives of a window, whole or in chunks, dense or sparse.

`tape_jacobians` loads this at the first question for a matrix: it needs thirty modules that
gradients do not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from gradtape.autodiff.chunks import UNLIMITED, Limits, check_memory, chunks_for, fits, limits
from gradtape.autodiff.dense_jacobians import (
    derive_batch_jacobian,
    derive_hessian,
    derive_jacobian,
    derive_slope,
)
from gradtape.autodiff.independence import check_independence
from gradtape.autodiff.jacobian import jacobian_dtype
from gradtape.autodiff.returned_derivatives import JACOBIAN, remember_answer
from gradtape.autodiff.sparse.jacobians import (
    known_sparse_jacobian,
    no_entries,
    remember_sparse_jacobian,
    sparse_hessian,
    sparse_jacobian,
)
from gradtape.autodiff.sparse.known_patterns import follows, is_block_diagonal
from gradtape.autodiff.window import Window
from gradtape.errors import MixedExamplesError
from gradtape.ir.derived import of_structure
from gradtape.ir.node import Node, slope_constant
from gradtape.ir.spec import spec
from gradtape.ops.families.independence import DependenceError
from gradtape.tape.asked_before import AUTO
from gradtape.tape.recording_scope import Scope, finish
from gradtape.tensor.tensor import Tensor, from_value
from gradtape.trace.recording import Recording

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    Matrix: TypeAlias = Tensor | csr_array
    Block: TypeAlias = Callable[[Node, Node], Matrix | None]


def _prove_independence(window: Window, y: Node, x: Node) -> None:
    """Raise unless the graph shows that row b of `y` depends on row b of `x` alone.

    The first proof follows the axis of examples through every op. Where that fails, as where slices
    are joined again, the sparsity pattern may still show a block diagonal, element by element.
    """

    def failure(_: object) -> str | None:
        try:
            check_independence(y, x, window.outside, follows)
        except DependenceError as error:
            return str(error)
        return None

    # The first proof holds for all contents of leaves, the second for those that were recorded.
    found = window.remembered(of_structure("examples mix", y, x), failure)
    if found is not None and not is_block_diagonal(window, y, x):
        raise MixedExamplesError(
            f"batch_jacobian: {found}: rows of the target of shape {y.shape} may depend on "
            f"other rows of the source of shape {x.shape}. Use jacobian, or check=False if you "
            "know that examples are independent."
        )


def limits_of(name: str, chunk_size: int | None, memory_budget: int | str | None) -> Limits:
    """The limits of memory that were asked for."""
    if chunk_size is None and memory_budget is None:
        return UNLIMITED
    return limits(name, chunk_size, memory_budget)


def remember_jacobian(window: Window, question: tuple[Node, ...], sparse: bool) -> None:
    """Note the answer for the next time, unless it may have to be computed in chunks."""
    target, source = question
    if sparse:
        remember_sparse_jacobian(window, target, source)
        return
    whole = derive_jacobian(window, target, source, AUTO)
    if whole is not None and fits(window.recording, target, source, whole):
        remember_answer(window.recording, JACOBIAN, question, [whole])


def _dense_jacobian(
    window: Window, target: Node, source: Node, mode: str, wanted: Limits
) -> Tensor | None:
    """The Jacobian of one target by one source, computed now if it has to be in chunks."""
    whole = derive_jacobian(window, target, source, mode)
    if whole is None:
        return None
    check_memory(target, source)
    chunks = chunks_for(window, target, source, mode, whole, wanted)
    if chunks is not None:
        return from_value(chunks.run(window.recording))
    return _handle(window, whole)


def _dense_hessian(
    window: Window, target: Node, first: Node, second: Node, wanted: Limits
) -> Tensor | None:
    """One block of a Hessian, computed now if it has to be in chunks."""
    whole = derive_hessian(window, target, first, second)
    if whole is None:
        return None
    check_memory(first, second)
    slope = derive_slope(window, target, first, second)
    assert slope is not None
    chunks = chunks_for(window.of_derivative(), slope.node, slope.by, "auto", whole, wanted)
    if chunks is not None:
        return from_value(chunks.run(window.recording, "hessian"))
    return _handle(window, whole)


def _handle(window: Window, result: Node) -> Tensor:
    found: Tensor
    (found,) = finish(window.recording, [None], [result], "none")
    return found


def zeros_of(window: Window, sparse: object) -> Callable[[Node, Node], Matrix]:
    """The derivative where nothing connects target and source."""
    if sparse is not False:
        return no_entries

    def dense(target: Node, source: Node) -> Tensor:
        of = spec(target.shape + source.shape, jacobian_dtype(target, source))
        return _handle(window, slope_constant(0, of))

    return dense


def batch_jacobian(
    window: Window, y: Node, x: Node, mode: str, zero: bool, check: bool
) -> Tensor | None:
    """The Jacobian of each example; `zero` gives zeros where nothing connects `x` and `y`."""
    if check and y.spec.inexact and x.spec.inexact:
        _prove_independence(window, y, x)
    result = derive_batch_jacobian(window, y, x, mode)
    if result is None and zero:
        result = slope_constant(0, spec((*y.shape, *x.shape[1:]), jacobian_dtype(y, x)))
    found: Tensor | None
    (found,) = finish(window.recording, [None], [result], "none")
    return found


def window_of(tape: Scope, recording: Recording) -> Window:
    """What a tape can derive."""
    return Window(recording, tape._outside(), tape._watched_nodes())


def known_sparse_matrix(recording: Recording, question: tuple[Node, ...]) -> csr_array | None:
    """The sparse Jacobian that answers a question, if that was asked before."""
    program = known_sparse_jacobian(recording, question)
    return None if program is None else program.matrix(recording)


def jacobian_of(window: Window, mode: str, wanted: Any, chunks: Limits) -> Block:
    """The function that gives the Jacobian of a target by a source."""

    def block(y: Node, x: Node) -> Matrix | None:
        dense = partial(_dense_jacobian, window, y, x, mode, chunks)
        if wanted is False:
            return dense()
        return sparse_jacobian(window, y, x, mode, wanted, dense, chunks)

    return block


def hessian_of(window: Window, y: Node, wanted: Any, chunks: Limits) -> Block:
    """The function that gives the block of a Hessian by two sources."""

    def block(first: Node, second: Node) -> Matrix | None:
        dense = partial(_dense_hessian, window, y, first, second, chunks)
        if wanted is False:
            return dense()
        return sparse_hessian(window, y, first, second, wanted, dense, chunks)

    return block
