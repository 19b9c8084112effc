"""NumPy's functions of tensors whose results have no derivative: facts, texts, comparisons, files.

NumPy's own function is called on the computed values, so every parameter means what it means there.
"""

from __future__ import annotations

import numpy as np

from gradtape.interop.numpy_protocols.binding import AnyFunction
from gradtape.tensor.operators import Operators

__all__ = ["FUNCTIONS", "OF_VALUES", "READ_ARRAYS"]


def values(tree):
    """Tensors as arrays of their values, in lists, tuples and dictionaries as well."""
    if isinstance(tree, Operators):
        return np.asarray(getattr(tree, "read", tree.numpy)())
    if isinstance(tree, (list, tuple)) and type(tree) in (list, tuple):
        return type(tree)(values(item) for item in tree)
    if type(tree) is dict:
        return {key: values(item) for key, item in tree.items()}
    return tree


def _size(a, axis=None):
    if axis is None:
        return a.size
    axes = axis if isinstance(axis, tuple) else (axis,)
    return int(np.prod([a.shape[one] for one in axes]))


def _dtypes(*arrays_and_dtypes):
    return [getattr(a, "dtype", a) if isinstance(a, Operators) else a for a in arrays_and_dtypes]


# Called with the values: booleans, positions, texts and files have no derivative.
OF_VALUES: tuple[AnyFunction, ...] = (
    np.allclose,
    np.array_equal,
    np.array_equiv,
    np.isclose,
    np.array2string,
    np.save,
    np.savez,
    np.savez_compressed,
    np.savetxt,
    np.may_share_memory,
    np.shares_memory,
    np.min_scalar_type,
    np.can_cast,
    np.digitize,
    np.lexsort,
    np.einsum_path,
    np.ix_,
    np.ravel_multi_index,
    np.unravel_index,
    np.packbits,
    np.unpackbits,
    np.argpartition,
    np.tril_indices_from,
    np.triu_indices_from,
    np.diag_indices_from,
    np.common_type,
)
# Called with arrays: of a tensor that a tape tracks the conversion raises, as a derivative is lost.
READ_ARRAYS: tuple[AnyFunction, ...] = (
    np.histogram,
    np.histogram2d,
    np.histogramdd,
    np.histogram_bin_edges,
    np.intersect1d,
    np.union1d,
    np.setdiff1d,
    np.setxor1d,
    np.trim_zeros,
    np.roots,
    np.poly,
    np.polyfit,
    np.polyder,
    np.polyint,
    np.polydiv,
    np.sort_complex,
    np.geomspace,
    np.logspace,
    np.apply_along_axis,
    np.apply_over_axes,
    np.copyto,
    np.linalg.eig,
    np.linalg.eigvals,
)

FUNCTIONS: dict[AnyFunction, AnyFunction] = {
    np.shape: lambda a: tuple(a.shape),
    np.ndim: lambda a: a.ndim,
    np.size: _size,
    np.iscomplexobj: lambda x: np.dtype(x.dtype).kind == "c",
    np.isrealobj: lambda x: np.dtype(x.dtype).kind != "c",
    np.result_type: lambda *arrays_and_dtypes: np.result_type(*_dtypes(*arrays_and_dtypes)),
    np.array_repr: lambda arr: repr(arr),
    np.array_str: lambda a: str(a),
}
