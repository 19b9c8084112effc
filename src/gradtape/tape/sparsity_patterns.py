"""Sparsity patterns: the entries of a Jacobian or Hessian that can be nonzero."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.annotated_kinds import Size
from gradtape.autodiff.sparse.detect import (
    contents_of,
    detect,
    follows,
    hessian_pattern as recorded_hessian_pattern,
    index_leaves,
)
from gradtape.autodiff.sparse.drawing import drawn
from gradtape.autodiff.sparse.pattern import Pattern, pattern_of
from gradtape.display import new_figure
from gradtape.pytree import flatten, unflatten
from gradtape.tape.grad_vjp_jvp import chosen_arguments, recorded_at
from gradtape.tensor.tensor import asarray

if TYPE_CHECKING:
    from gradtape.tape.tape_jacobians import PatternLike

__all__ = ["hessian_pattern", "sparsity_pattern", "spy"]


def sparsity_pattern(f: Callable[..., object], *args: object, argnums: int = 0) -> Any:
    """The entries of the Jacobian of `f` that can be nonzero, at any values of the arguments.

    >>> pattern = gt.sparsity_pattern(lambda x: gt.sin(x[1:]) - x[:-1], np.zeros(4))
    >>> print(gt.spy(pattern, dots=False))
    xx..
    .xx.
    ..xx

    The pattern follows from the program that `f` records, not from values; only integers that
    index are read. It has a row for each element of the result and a column for each element
    of argument number `argnums`. A nest of results gives a nest of patterns, and so does a nest of
    arguments, inside it.
    """
    tape, (sources,), result, _ = recorded_at(
        "sparsity_pattern", f, args, chosen_arguments("sparsity_pattern", argnums), persistent=True
    )
    window = tape.window()
    outputs, shape = flatten(result)
    entered = [asarray(output) for output in outputs]
    nodes = [output.enter(window.recording) for output in entered]
    leaves, structure = flatten(sources)
    columns = []
    for leaf in leaves:
        source = tape._source(leaf)
        leaves_read = index_leaves(nodes, source, window.outside)
        known = contents_of(window.recording, leaves_read)
        columns.append(detect(nodes, source, known, blocked=window.outside, follows=follows))
    return unflatten(
        shape, [unflatten(structure, list(patterns)) for patterns in zip(*columns, strict=True)]
    )


def hessian_pattern(f: Callable[..., object], *args: object, argnums: int = 0) -> Pattern:
    """The entries of the Hessian of a scalar function that can be nonzero; a symmetric pattern.

    >>> pattern = gt.hessian_pattern(lambda x: gt.sum(x**4) + x[0] * gt.sum(x), np.zeros(4))
    >>> print(gt.spy(pattern, dots=False))
    xxxx
    xx..
    x.x.
    x..x
    """
    tape, (sources,), result, _ = recorded_at(
        "hessian_pattern", f, args, chosen_arguments("hessian_pattern", argnums), persistent=True
    )
    window = tape.window()
    leaves = flatten(sources)[0]
    target = asarray(result)
    if len(leaves) != 1 or target.shape != ():
        raise ValueError(
            f"hessian_pattern: {len(leaves)} tensors as the argument and a result of shape "
            f"{target.shape}. The Hessian is that of a scalar by one tensor."
        )
    node = tape._source(leaves[0])
    return recorded_hessian_pattern(window, target.enter(window.recording), node, None)


def spy(pattern: PatternLike, *, dots: bool = True, width: Size = 80, plot: bool = False) -> Any:
    """A picture of a pattern, a sparse matrix or an array, as text to print.

    Each character stands for 4 × 2 entries, as Braille dots, or with `dots=False` for one entry, as
    `x` or `.`. Larger patterns are scaled down to `width` characters and lines at most: a mark then
    says that there is an entry in a block. `plot=True` draws with matplotlib and returns the axes.

    >>> print(gt.spy(np.eye(8)))
    ⠑⢄⠀⠀
    ⠀⠀⠑⢄
    """
    found = pattern if isinstance(pattern, Pattern) else pattern_of(_stored(pattern))
    if plot:
        return _plotted(found)
    return drawn(found, dots, width)


def _stored(matrix: object) -> Any:
    return matrix if hasattr(matrix, "tocsr") else np.atleast_2d(np.asarray(matrix))


def _plotted(pattern: Pattern) -> Any:
    remedy = ", or print the text that spy returns without it"
    axes = new_figure("spy: plot=True", remedy).subplots()
    if pattern.rows is None:
        # Too many entries to be listed: the whole matrix is one block.
        rows, columns = pattern.shape
        extent = (-0.5, columns - 0.5, rows - 0.5, -0.5)
        axes.imshow([[1.0]], cmap="binary", vmin=0.0, vmax=1.0, extent=extent)
    else:
        axes.spy(pattern.matrix, markersize=max(0.2, 200 / max(1, *pattern.shape)))
    axes.set_title(repr(pattern))
    return axes
