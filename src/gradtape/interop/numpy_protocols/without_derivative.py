"""NumPy's functions of tensors whose results have no derivative: facts, texts, comparisons, files.

NumPy's own function is called on the computed values, so every parameter means what it means there.
"""

from __future__ import annotations

import numpy as np

from gradtape.interop.numpy_protocols.binding import AnyFunction, functions
from gradtape.tensor.operators import Operators

__all__ = ["FUNCTIONS", "OF_VALUES", "READ_ARRAYS"]


def value_of(tensor):
    """The array of a tensor's values."""
    return np.asarray(getattr(tensor, "read", tensor.numpy)())


def with_arrays(tree, array_of):
    """The tree with the array of each tensor, in lists, tuples and dictionaries as well."""
    if isinstance(tree, Operators):
        return array_of(tree)
    if type(tree) in (list, tuple):
        return type(tree)(with_arrays(item, array_of) for item in tree)
    if type(tree) is dict:
        return {key: with_arrays(item, array_of) for key, item in tree.items()}
    return tree


def _size(a, axis=None):
    if axis is None:
        return a.size
    axes = axis if isinstance(axis, tuple) else (axis,)
    return int(np.prod([a.shape[one] for one in axes]))


def _dtypes(*arrays_and_dtypes):
    return [getattr(a, "dtype", a) if isinstance(a, Operators) else a for a in arrays_and_dtypes]


# Called with the values: booleans, positions, texts and files have no derivative.
OF_VALUES = functions(
    "allclose array_equal array_equiv isclose array2string save savez savez_compressed "
    "savetxt may_share_memory shares_memory min_scalar_type can_cast digitize lexsort "
    "einsum_path ix_ ravel_multi_index unravel_index packbits unpackbits argpartition "
    "tril_indices_from triu_indices_from diag_indices_from common_type"
)
# Called with arrays: of a tensor that a tape tracks the conversion raises, as a derivative is lost.
READ_ARRAYS: tuple[AnyFunction, ...] = (
    *functions(
        "histogram histogram2d histogramdd histogram_bin_edges intersect1d union1d setdiff1d "
        "setxor1d trim_zeros roots poly polyfit polyder polyint polydiv sort_complex geomspace "
        "logspace apply_along_axis apply_over_axes copyto"
    ),
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
