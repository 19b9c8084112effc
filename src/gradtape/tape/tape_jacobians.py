"""Methods of a tape beyond gradients: Jacobians, of batches too, and Hessians."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

from gradtape.argument_checks import check_methods, is_choice
from gradtape.autodiff.window import JACOBIAN, Window
from gradtape.errors import DtypeError, NotRecordingError, TapeConsumedError, shown
from gradtape.ir.node import Node
from gradtape.pytree import Structure, flatten, unflatten
from gradtape.tape.lost_derivatives import warn_of_none, warn_of_numbers
from gradtape.tape.recording_scope import Scope, check_unconnected
from gradtape.tensor import Tensor, Variable
from gradtape.tensor.tensor_like import NestedSequence
from gradtape.trace.recording import Recording, state

if TYPE_CHECKING:
    from scipy.sparse import csr_array, sparray, spmatrix

    from gradtape.autodiff.sparse.pattern import Pattern

    # The entries that can be nonzero: a pattern, a sparse matrix, an array or nested lists.
    PatternLike: TypeAlias = Pattern | sparray | spmatrix | np.ndarray | NestedSequence[complex]
    # The form of a matrix: dense, sparse, whichever is smaller ("auto"), or by its pattern.
    SparseOption: TypeAlias = bool | str | PatternLike
    Matrix: TypeAlias = Tensor | csr_array

# Defaults of arguments: an argument that was left out is one of these objects.
NONE, ZERO, AUTO = "none", "zero", "auto"


class _Unstated(str):
    """A default that equals a word and is not the word that a user passes."""


UNSTATED = _Unstated(NONE)

MODES = (AUTO, "forward", "reverse")


class Jacobians(Scope):
    """The part of a tape that gives whole matrices of derivatives."""

    @overload
    def jacobian(
        self,
        target: Tensor,
        sources: Tensor | Variable,
        unconnected_gradients: str = "none",
        *,
        mode: str = "auto",
        chunk_size: int | None = None,
        memory_budget: int | str | None = None,
    ) -> Tensor: ...

    @overload
    def jacobian(
        self,
        target: object,
        sources: object,
        unconnected_gradients: str = "none",
        parallel_iterations: object = None,
        experimental_use_pfor: bool = True,
        *,
        mode: str = "auto",
        sparse: SparseOption = False,
        chunk_size: int | None = None,
        memory_budget: int | str | None = None,
    ) -> Any: ...

    def jacobian(
        self,
        target: object,
        sources: object,
        unconnected_gradients: str = UNSTATED,
        parallel_iterations: object = None,
        experimental_use_pfor: bool = True,
        *,
        mode: str = "auto",
        sparse: SparseOption = False,
        chunk_size: int | None = None,
        memory_budget: int | str | None = None,
    ) -> Any:
        """The derivative of every element of `target` by every element of each source.

        >>> x = gt.Variable([1.0, 2.0])
        >>> with gt.GradientTape() as tape:
        ...     y = gt.stack([x[0] * x[1], x[0] + x[1]])
        >>> tape.jacobian(y, x).tolist()
        [[2.0, 1.0], [1.0, 1.0]]

        The shape is target.shape + source.shape. Targets and sources may be nests: the result has
        the structure of the target, with that of the sources inside. `mode` is chosen by cost;
        `parallel_iterations` and `experimental_use_pfor` are accepted for TensorFlow's sake and
        change nothing. With `sparse=True` each Jacobian is a scipy.sparse array of shape
        (target.size, source.size), computed now; `"auto"` gives whichever takes less memory.

        A dense Jacobian whose intermediates would take more than `memory_budget` bytes (or such as
        "512M"; by default GRADTAPE_JACOBIAN_BUDGET, or an eighth of the memory) is computed now,
        for some seeds at a time; `chunk_size` says for how many. Where an outer tape records, it
        is not: the result has to stay differentiable.
        """
        key = None
        # By identity: anything may be passed here, and the checks below refuse it.
        if (
            sparse is False
            and chunk_size is None
            and memory_budget is None
            and mode is AUTO
            and any(unconnected_gradients is word for word in (UNSTATED, NONE, ZERO))
        ):
            key, known = self._remembered(JACOBIAN, target, (sources,), True)
            if known:
                self._end_if_single_use()
                return known[0]
        check_unconnected(unconnected_gradients)
        check_mode("jacobian", mode)
        wanted = check_sparse("jacobian", sparse)
        # It needs thirty modules that gradients do not.
        from gradtape.tape import derived_matrices as matrices

        chunks = matrices.limits("jacobian", chunk_size, memory_budget)
        self._checked_recording()
        window = self.window()
        targets, shape = flatten(target)
        leaves, structure = flatten(sources)
        nodes = [self._source(leaf) for leaf in leaves]
        rows = [self._enter(one, "jacobian: target") for one in targets]

        self._warn_of_numbers(rows)
        derived = matrices.DerivedMatrices(window, wanted, chunks)
        if key is not None:
            matrices.remember_jacobian(window, key)
        zeros = derived.zeros if unconnected_gradients == "zero" else None
        by = leaves if unconnected_gradients is UNSTATED else ()
        return self._blocks(
            partial(derived.jacobian, mode), zeros, (rows, shape), (nodes, structure), by
        )

    def batch_jacobian(
        self,
        target: Tensor | Variable,
        source: Tensor | Variable,
        unconnected_gradients: str = UNSTATED,
        parallel_iterations: object = None,
        experimental_use_pfor: bool = True,
        *,
        mode: str = "auto",
        check: bool = True,
    ) -> Tensor | None:
        """The Jacobian of each example: row b of `target` by row b of `source`.

        >>> x = gt.Variable([2.0, 3.0])
        >>> with gt.GradientTape() as tape:
        ...     y = x**3
        >>> tape.batch_jacobian(y, x).tolist()
        [12.0, 27.0]

        It is refused unless the graph proves that no example depends on another one;
        `check=False` skips the proof, for graphs whose examples you know to be independent.
        """
        check_unconnected(unconnected_gradients)
        check_mode("batch_jacobian", mode)
        self._checked_recording()
        window = self.window()
        y = self._enter(target, "batch_jacobian: target")
        x = self._source(source)
        if not y.shape or not x.shape or y.shape[0] != x.shape[0]:
            raise ValueError(
                f"batch_jacobian: target of shape {y.shape} and source of shape {x.shape} have no "
                "first axis in common that counts examples. Use jacobian, which needs none."
            )
        # It needs thirty modules that gradients do not.
        from gradtape.tape import derived_matrices as matrices

        zero = unconnected_gradients == "zero"
        self._warn_of_numbers([y])
        found = matrices.batch_jacobian(window, y, x, mode, zero, check)
        if unconnected_gradients is UNSTATED:
            self._warn_of_none("batch_jacobian", [y], [source], [found])
        self._end_if_single_use()
        return found

    @overload
    def hessian(
        self,
        target: Tensor,
        sources: Tensor | Variable,
        unconnected_gradients: str = "none",
        *,
        chunk_size: int | None = None,
        memory_budget: int | str | None = None,
    ) -> Tensor: ...

    @overload
    def hessian(
        self,
        target: object,
        sources: object,
        unconnected_gradients: str = "none",
        *,
        sparse: SparseOption = False,
        chunk_size: int | None = None,
        memory_budget: int | str | None = None,
    ) -> Any: ...

    def hessian(
        self,
        target: object,
        sources: object,
        unconnected_gradients: str = "none",
        *,
        sparse: SparseOption = False,
        chunk_size: int | None = None,
        memory_budget: int | str | None = None,
    ) -> Any:
        """The second derivatives of the sum of `target`.

        >>> x = gt.Variable([1.0, 2.0])
        >>> with gt.GradientTape() as tape:
        ...     y = x[0] ** 2 * x[1]
        >>> tape.hessian(y, x).tolist()
        [[4.0, 2.0], [2.0, 0.0]]

        The shape is source.shape + source.shape. For a nest of sources the result is a nest of
        nests: block [a][b] is the derivative by b of the gradient by a. The last three arguments
        are those of `jacobian`.
        """
        check_unconnected(unconnected_gradients)
        wanted = check_sparse("hessian", sparse)
        # It needs thirty modules that gradients do not.
        from gradtape.tape import derived_matrices as matrices

        chunks = matrices.limits("hessian", chunk_size, memory_budget)
        self._checked_recording()
        window = self.window()
        y = self._enter(target, "hessian: target")
        leaves, structure = flatten(sources)
        nodes = [self._source(leaf) for leaf in leaves]
        check_real("hessian", y, nodes)
        self._warn_of_numbers([y])

        derived = matrices.DerivedMatrices(window, wanted, chunks)
        zeros = derived.zeros if unconnected_gradients == "zero" else None
        both = nodes, structure
        return self._blocks(partial(derived.hessian, y), zeros, both, both)

    def _require_open(self) -> None:
        if self._consumed:
            raise TapeConsumedError(
                "this tape has given its gradient and holds nothing any more. "
                "Make it with GradientTape(persistent=True) to differentiate more than once."
            )

    def _checked_recording(self) -> Recording:
        """The recording to derive from; a tape that is not persistent stops recording first."""
        self._require_open()
        if self._recording is None:
            raise NotRecordingError(
                "this tape has recorded nothing. Use `with tape:` around the computation first."
            )
        if not self.persistent and self._active:
            self._close()
        if self._recording is not state.recording:
            self._recording.log.requested_at = len(self._recording.log)
        return self._recording

    def _source(self, leaf: object) -> Node:
        """The node of a source: the one that was watched, or that of its current value."""
        if isinstance(leaf, Variable) and leaf.number in self._variables:
            node = self._variables[leaf.number][1]
            if node is not None:
                return node
        entry = self._watched.get(id(leaf))
        if entry is not None and entry[0] is leaf:
            return entry[1]
        if isinstance(leaf, Variable):
            # It was not read under this tape: this request must not count as a read.
            return leaf.enter_unnoticed(self._recording)  # type: ignore[arg-type]
        return self._enter(leaf, "source")

    def _warn_of_numbers(self, targets: Sequence[Node]) -> None:
        """Warn of numbers that were read out of tensors and that targets are computed from."""
        if self.numbers and self._recording is not None:
            warn_of_numbers(self.numbers, self._recording, targets)

    def _warn_of_none(
        self,
        name: str,
        targets: Sequence[Node],
        leaves: Sequence[object],
        found: Sequence[object],
    ) -> None:
        """Warn of sources without a derivative, unless `watch` has."""
        known = self.without_derivative
        missing = [
            (at, leaf, self._source(leaf))
            for at, (leaf, one) in enumerate(zip(leaves, found, strict=True))
            if one is None and id(leaf) not in known
        ]
        if missing:
            warn_of_none(name, self, [one for one in targets if one.spec.inexact], missing)

    def _blocks(
        self,
        block: Callable[[Node, Node], Matrix | None],
        zeros: Callable[[Node, Node], Matrix] | None,
        rows: tuple[Sequence[Node], Structure],
        columns: tuple[Sequence[Node], Structure],
        warned: Sequence[object] = (),
    ) -> Any:
        """The matrix of each row and column, as a nest of nests; `warned` sources have one."""
        found: list[object] = []
        grid: list[Sequence[object]] = []
        for row in rows[0]:
            matrices = [block(row, column) for column in columns[0]]
            if zeros is not None:
                pairs = zip(matrices, columns[0], strict=True)
                matrices = [zeros(row, column) if m is None else m for m, column in pairs]
            grid.append(matrices)
            found.append(unflatten(columns[1], matrices))
        if warned and grid:
            # A source that one of several targets does not depend on is no mistake.
            best = [
                next((one for one in column if one is not None), None)
                for column in zip(*grid, strict=True)
            ]
            self._warn_of_none("jacobian", rows[0], warned, best)
        self._end_if_single_use()
        return unflatten(rows[1], found)

    def window(self) -> Window:
        """The part of the recording that this tape differentiates."""
        assert self._recording is not None
        return Window(self._recording, self._outside(), self._watched_nodes())


def check_mode(name: str, mode: str) -> None:
    """Raise a ValueError for an unknown mode."""
    if not is_choice(mode, MODES):
        raise ValueError(f"{name}: mode {shown(mode)} is unknown. Use one of {', '.join(MODES)}.")


def check_real(name: str, target: Node | Tensor, sources: Sequence[Node | Tensor]) -> None:
    """Raise a DtypeError where a second derivative would start from a gradient that is none.

    By real sources only a real target has a gradient.
    """
    if target.dtype.kind == "c" and any(source.dtype.kind == "f" for source in sources):
        raise DtypeError(
            f"{name}: a target of {target.dtype} has no gradient by a real source. Take the "
            "derivatives of gt.real(y) and gt.imag(y)."
        )


def check_sparse(name: str, sparse: SparseOption) -> SparseOption:
    """The option as a bool, `"auto"` or a pattern; anything else is a ValueError."""
    if isinstance(sparse, (bool, np.bool_)):
        return bool(sparse)
    if sparse != "auto" if isinstance(sparse, str) else not _is_matrix(sparse):
        raise ValueError(
            f'{name}: sparse={sparse!r} is unknown. Use True, False, "auto" or a pattern.'
        )
    if isinstance(sparse, (list, tuple)):
        try:
            return np.asarray(sparse)
        except ValueError as error:
            raise ValueError(f"{name}: sparse={sparse!r} is no pattern: {error}") from None
    return sparse


def _is_matrix(given: object) -> bool:
    return isinstance(given, (list, tuple)) or hasattr(given, "shape")


check_methods(Jacobians)
