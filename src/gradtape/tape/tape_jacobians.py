"""What a tape gives beyond gradients: Jacobians, of batches too, and Hessians."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from gradtape.derive.chunks import Limits, chunks_for, limits
from gradtape.derive.index_contents import follows
from gradtape.derive.jacobians import (
    derive_batch_jacobian,
    derive_hessian,
    derive_jacobian,
    derive_slope,
)
from gradtape.derive.sparse_jacobians import no_entries, sparse_hessian, sparse_jacobian
from gradtape.derive.sparse_patterns import is_block_diagonal
from gradtape.derive.window import Window
from gradtape.errors import DtypeError, MixedExamplesError
from gradtape.graph.node import Node, slope_constant
from gradtape.graph.spec import spec
from gradtape.pytree import flatten, unflatten
from gradtape.recording.recording import Recording
from gradtape.tape.recording_scope import Scope, check_unconnected, finish
from gradtape.tensor.tensor import from_value
from gradtape.transforms.independence import DependenceError, check_independence
from gradtape.transforms.jacobian import jacobian_dtype

MODES = ("auto", "forward", "reverse")


class Jacobians(Scope):
    """The part of a tape that asks for whole matrices of derivatives."""

    # Provided by GradientTape.
    _ask: Callable[[], Recording]
    _source: Callable[[Any], Node]
    _consume: Callable[[], None]

    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: str = "none",
        parallel_iterations: Any = None,
        experimental_use_pfor: bool = True,
        *,
        mode: str = "auto",
        sparse: Any = False,
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
        check_unconnected(unconnected_gradients)
        check_mode("jacobian", mode)
        sparse = check_sparse("jacobian", sparse)
        wanted = _UNLIMITED
        if chunk_size is not None or memory_budget is not None:
            wanted = limits("jacobian", chunk_size, memory_budget)
        recording = self._ask()
        view = self._view(recording)
        targets, target_structure = flatten(target)
        leaves, structure = flatten(sources)
        nodes = [self._source(leaf) for leaf in leaves]
        rows = []
        for one in targets:
            y = self._enter(one, "jacobian: target")
            found: list[Any] = []
            for node in nodes:
                if sparse is False:
                    matrix = _dense_jacobian(view, y, node, mode, wanted)
                else:
                    dense = partial(_dense_jacobian, view, y, node, mode, wanted)
                    matrix = sparse_jacobian(view, y, node, mode, sparse, dense)
                if matrix is None and unconnected_gradients == "zero":
                    matrix = _zeros(recording, y, node, sparse)
                found.append(matrix)
            rows.append(unflatten(structure, found))
        if not self.persistent:
            self._consume()
        return unflatten(target_structure, rows)

    def batch_jacobian(
        self,
        target: Any,
        source: Any,
        unconnected_gradients: str = "none",
        parallel_iterations: Any = None,
        experimental_use_pfor: bool = True,
        *,
        mode: str = "auto",
        check: bool = True,
    ) -> Any:
        """The Jacobian of each example: row b of `target` by row b of `source`.

        >>> x = gt.Variable([2.0, 3.0])
        >>> with gt.GradientTape() as tape:
        ...     y = x**3
        >>> tape.batch_jacobian(y, x).tolist()
        [12.0, 27.0]

        It is refused unless the graph proves that no example depends on another one;
        `check=False` says that you know.
        """
        check_unconnected(unconnected_gradients)
        check_mode("batch_jacobian", mode)
        recording = self._ask()
        view = self._view(recording)
        y = self._enter(target, "batch_jacobian: target")
        x = self._source(source)
        if not y.shape or not x.shape or y.shape[0] != x.shape[0]:
            raise ValueError(
                f"batch_jacobian: target of shape {y.shape} and source of shape {x.shape} have no "
                "first axis in common that counts examples. Use jacobian, which needs none."
            )
        if check:
            self._check(y, x, view, recording)
        result = derive_batch_jacobian(view, y, x, mode)
        if result is None and unconnected_gradients == "zero":
            result = slope_constant(0, spec((*y.shape, *x.shape[1:]), jacobian_dtype(y, x)))
        found = None if result is None else finish(recording, None, result, "none")
        if not self.persistent:
            self._consume()
        return found

    def hessian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: str = "none",
        *,
        sparse: Any = False,
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
        sparse = check_sparse("hessian", sparse)
        wanted = _UNLIMITED
        if chunk_size is not None or memory_budget is not None:
            wanted = limits("hessian", chunk_size, memory_budget)
        recording = self._ask()
        view = self._view(recording)
        y = self._enter(target, "hessian: target")
        leaves, structure = flatten(sources)
        nodes = [self._source(leaf) for leaf in leaves]
        check_real("hessian", y, nodes)
        rows = []
        for first in nodes:
            found: list[Any] = []
            for second in nodes:
                if sparse is False:
                    matrix = _dense_hessian(view, y, first, second, wanted)
                else:
                    dense = partial(_dense_hessian, view, y, first, second, wanted)
                    matrix = sparse_hessian(view, y, first, second, sparse, dense)
                if matrix is None and unconnected_gradients == "zero":
                    matrix = _zeros(recording, first, second, sparse)
                found.append(matrix)
            rows.append(unflatten(structure, found))
        if not self.persistent:
            self._consume()
        return unflatten(structure, rows)

    def _view(self, recording: Recording) -> Window:
        watched = tuple(node for _, node in self._watched.values())
        return Window(recording, self._outside(), watched)

    def _check(self, y: Node, x: Node, view: Window, recording: Recording) -> None:
        def check(_: Any) -> bool:
            try:
                check_independence(y, x, view.outside, follows(recording))
            except DependenceError:
                # Not axis by axis, but perhaps element by element: slices that are joined again.
                if not is_block_diagonal(view, y, x):
                    raise
            return True

        if not (y.spec.inexact and x.spec.inexact):
            return
        try:
            view.remembered(("independent", y, x), check)
        except DependenceError as found:
            raise MixedExamplesError(
                f"batch_jacobian: {found}: rows of the target of shape {y.shape} may depend on "
                f"other rows of the source of shape {x.shape}. Use jacobian, or check=False if you "
                "know that examples are independent."
            ) from None


_UNLIMITED = Limits()


def _dense_jacobian(view: Window, target: Node, source: Node, mode: str, wanted: Limits) -> Any:
    whole = derive_jacobian(view, target, source, mode)
    if whole is None:
        return None
    chunks = chunks_for(view, target, source, mode, whole, wanted)
    if chunks is not None:
        return from_value(chunks.run(view.recording))
    return finish(view.recording, None, whole, "none")


def _dense_hessian(view: Window, target: Node, first: Node, second: Node, wanted: Limits) -> Any:
    whole = derive_hessian(view, target, first, second)
    if whole is None:
        return None
    slope = derive_slope(view, target, first, second)
    assert slope is not None
    chunks = chunks_for(view.of_derivative(), slope.node, slope.by, "auto", whole, wanted)
    if chunks is not None:
        return from_value(chunks.run(view.recording))
    return finish(view.recording, None, whole, "none")


def _zeros(recording: Recording, target: Node, source: Node, sparse: Any) -> Any:
    """The derivative where nothing connects target and source."""
    if sparse is not False:
        return no_entries(target, source)
    of = spec(target.shape + source.shape, jacobian_dtype(target, source))
    return finish(recording, None, slope_constant(0, of), "none")


def check_mode(name: str, mode: str) -> None:
    if mode not in MODES:
        raise ValueError(f"{name}: mode {mode!r} is unknown. Use one of {', '.join(MODES)}.")


def check_real(name: str, target: Any, sources: Sequence[Any]) -> None:
    """Second derivatives start from a gradient, which is that of a real target."""
    if target.dtype.kind == "c" and any(source.dtype.kind == "f" for source in sources):
        raise DtypeError(
            f"{name}: a target of {target.dtype} has no gradient by a real source. Take the "
            "derivatives of gt.real(y) and gt.imag(y)."
        )


def check_sparse(name: str, sparse: Any) -> Any:
    """What was asked for: a bool, `auto` or a pattern."""
    if isinstance(sparse, (bool, np.bool_)):
        return bool(sparse)
    if sparse != "auto" if isinstance(sparse, str) else not _is_matrix(sparse):
        raise ValueError(
            f'{name}: sparse={sparse!r} is unknown. Use True, False, "auto" or a pattern.'
        )
    return sparse


def _is_matrix(given: Any) -> bool:
    return isinstance(given, (list, tuple)) or hasattr(given, "shape")
