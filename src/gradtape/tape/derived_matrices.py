"""Matrices of derivatives of a window, whole or in chunks, dense or sparse.

`tape_jacobians` loads this when a matrix is wanted: it needs thirty modules that gradients do not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gradtape.autodiff.chunks import (
    Limits,
    check_memory,
    chunks_for,
    fits,
    limits as limits,  # for the tape, which loads this late
)
from gradtape.autodiff.independence import check_independence
from gradtape.autodiff.jacobian import (
    derive_batch_jacobian,
    derive_hessian,
    derive_jacobian,
    derive_slope,
    jacobian_dtype,
)
from gradtape.autodiff.sparse.detect import (
    Wanted,
    follows,
    given_pattern,
    hessian_pattern,
    is_block_diagonal,
    is_smaller,
    jacobian_pattern,
)
from gradtape.autodiff.sparse.pattern import Pattern
from gradtape.autodiff.sparse.programs import (
    SparseProgram,
    prepare_sparse_hessian,
    prepare_sparse_jacobian,
)
from gradtape.autodiff.window import JACOBIAN, Window, remember
from gradtape.errors import MixedExamplesError, NoValueError
from gradtape.ir import Node, of_structure, spec
from gradtape.ir.node import slope_constant
from gradtape.ops.families.independence import DependenceError
from gradtape.records import dataclass
from gradtape.runtime.profiler_sink import PROBE
from gradtape.tape.recording_scope import finish
from gradtape.tensor.tensor import Tensor, from_value

if TYPE_CHECKING:
    from gradtape.tape.tape_jacobians import Matrix


@dataclass(frozen=True)
class DerivedMatrices:
    """The Jacobians and Hessians of a window, in the form and within the limits wanted."""

    window: Window
    # False for dense ones.
    wanted: Wanted
    limits: Limits

    def jacobian(self, mode: str, target: Node, source: Node) -> Matrix | None:
        """The Jacobian of a target by a source; None where nothing connects the two."""

        def dense() -> Tensor | None:
            whole = derive_jacobian(self.window, target, source, mode)
            if PROBE.sink is not None and whole is not None and self.wanted is False:
                PROBE.sink.dense_jacobian(self.window, target, source, whole)
            return self._whole(whole, self.window, target, source, mode, "jacobian")

        return dense() if self.wanted is False else self._sparse(mode, target, source, dense)

    def hessian(self, target: Node, first: Node, second: Node) -> Matrix | None:
        """The derivative by `second` of the gradient of a target by `first`."""
        window = self.window
        slope = derive_slope(window, target, first, second)
        if slope is None or derive_slope(window, target, second, second) is None:
            return None
        node, by, isolated = slope.node, slope.by, slope.isolated

        def dense() -> Tensor | None:
            whole = derive_hessian(window, target, first, second)
            return self._whole(whole, window.of_derivative(), node, by, "auto", "hessian")

        if self.wanted is False:
            return dense()
        if first is second:
            prepare = partial(prepare_sparse_hessian, window, target, first, "star")
            pattern = partial(hessian_pattern, window, target, first)
            return self._prepared((first, first), dense, pattern, prepare)
        alone = Window(window.recording, frozenset(), None, isolated)
        found = DerivedMatrices(alone, self.wanted, self.limits)._sparse("auto", node, by, dense)
        return self.zeros(first, second) if found is None else found

    def zeros(self, target: Node, source: Node) -> Matrix:
        """The derivative where nothing connects target and source."""
        dtype = jacobian_dtype(target, source)
        if self.wanted is False:
            return _handle(self.window, slope_constant(0, spec(target.shape + source.shape, dtype)))
        from scipy.sparse import csr_array  # slow to import

        return csr_array((target.size, source.size), dtype=dtype)

    def _whole(
        self,
        whole: Node | None,
        window: Window,
        target: Node,
        source: Node,
        mode: str,
        title: str,
    ) -> Tensor | None:
        """A dense matrix, computed now if it has to be in chunks."""
        if whole is None:
            return None
        check_memory(target, source)
        chunks = chunks_for(window, target, source, mode, whole, self.limits)
        if chunks is not None:
            return from_value(chunks.run(window.recording, title))
        return _handle(window, whole)

    def _sparse(
        self, mode: str, target: Node, source: Node, dense: Callable[[], Tensor | None]
    ) -> Matrix | None:
        if not self.window.differentiable(target, source):
            return None
        prepare = partial(prepare_sparse_jacobian, self.window, target, source, mode)
        pattern = partial(jacobian_pattern, self.window, target, source)
        return self._prepared((target, source), dense, pattern, prepare)

    def _prepared(
        self,
        shape: tuple[Node, Node],
        dense: Callable[[], Tensor | None],
        pattern_of: Callable[[Pattern | None], Pattern],
        prepare: Callable[..., SparseProgram],
    ) -> Matrix | None:
        """A CSR array, or the dense matrix if `auto` prefers it or there are no values."""
        given, is_auto = given_pattern(self.wanted), isinstance(self.wanted, str)
        if is_auto:
            pattern = pattern_of(given)
            if not is_smaller(pattern, jacobian_dtype(*shape)):
                check_memory(*shape, pattern.notes)
                return dense()
        prepared = prepare(given, limits=self.limits)
        if not prepared.connected:
            return None
        try:
            return prepared.matrix(self.window.recording)
        except NoValueError:  # as inside vmap
            if not is_auto:
                raise
            return dense()


def remember_jacobian(window: Window, key: tuple[Node, ...]) -> None:
    """Note the Jacobian for the next time, unless it may have to be computed in chunks."""
    target, source = key
    whole = derive_jacobian(window, target, source, "auto")
    if whole is not None and fits(window.recording, target, source, whole):
        remember(window.recording, JACOBIAN, key, [whole])


def batch_jacobian(
    window: Window, y: Node, x: Node, mode: str, zero: bool, check: bool
) -> Tensor | None:
    """The Jacobian of each example; `zero` gives zeros where nothing connects `x` and `y`."""
    if check and y.spec.inexact and x.spec.inexact:
        _prove_independence(window, y, x)
    result = derive_batch_jacobian(window, y, x, mode)
    if result is None and zero:
        result = slope_constant(0, spec((*y.shape, *x.shape[1:]), jacobian_dtype(y, x)))
    return None if result is None else _handle(window, result)


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


def _handle(window: Window, result: Node) -> Tensor:
    (found,) = finish(window.recording, [None], [result], "none")
    tensor: Tensor = found
    return tensor
