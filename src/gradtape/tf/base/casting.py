"""Casting between dtypes, and complex numbers from their parts."""

from __future__ import annotations

import builtins

import numpy as np

import gradtape as gt
from gradtape.errors import DtypeError
from gradtape.libraries import check_exports
from gradtape.tf.base.conversion import common, convert
from gradtape.tf.base.dispatch import operation
from gradtape.tf.base.dtypes import as_dtype
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import DTypeLike, Name, TensorLike

__all__ = ["cast", "complex", "saturate_cast"]


@operation
def cast(x: TensorLike, dtype: DTypeLike, name: Name = None) -> Tensor:
    """The values in another dtype; complex numbers lose their imaginary part.

    >>> tf.cast([1.7, -1.7], tf.int32).numpy().tolist()
    [1, -1]
    """
    wanted = as_dtype(dtype).dtype
    x = convert(x)
    dtype_of_x = x.spec.dtype
    if dtype_of_x == wanted:
        return x
    if dtype_of_x.kind == "c" and wanted.kind != "c":
        x = gt.real(x)
    return gt.cast(x, wanted)


@operation
def saturate_cast(value: TensorLike, dtype: DTypeLike, name: Name = None) -> Tensor:
    """The values in another dtype, clipped to its range.

    >>> tf.dtypes.saturate_cast([300.0, -5.0], tf.uint8).numpy().tolist()
    [255, 0]
    """
    wanted = as_dtype(dtype)
    x = convert(value)
    if x.dtype.kind == "c" and wanted.kind != "c":
        x = gt.real(x)
    if wanted.kind == x.dtype.kind == "f" and wanted.dtype.itemsize < x.dtype.itemsize:
        x = gt.clip(x, builtins.float(wanted.min), builtins.float(wanted.max))
    if wanted.kind in "iu" and x.dtype.kind in "iuf":
        low, high = builtins.int(wanted.min), builtins.int(wanted.max)
        if x.dtype.kind == "f":
            # The nearest floats inside the range: 2³¹ - 1, for example, is not a float32.
            kind = x.dtype.type
            lowest, highest = kind(low), kind(high)
            if builtins.int(highest) > high:
                highest = np.nextafter(highest, kind(0))
            x = gt.clip(x, builtins.float(lowest), builtins.float(highest))
        else:
            bounds = np.iinfo(x.spec.dtype)
            x = gt.clip(x, max(low, bounds.min), min(high, bounds.max))
    return cast(x, wanted)


@operation
def complex(real: TensorLike, imag: TensorLike, name: Name = None) -> Tensor:
    """Complex numbers from their real and imaginary parts.

    >>> tf.complex([1.0], [2.0]).numpy()
    array([1.+2.j], dtype=complex64)
    """
    re, im = common([real, imag], "complex")
    if re.dtype.kind != "f":
        raise DtypeError(f"complex: parts must be floats, not {re.dtype.name}. Use tf.cast.")
    wanted = np.result_type(re.spec.dtype, np.complex64)
    return gt.cast(re, wanted) + gt.cast(im, wanted) * 1j


check_exports(globals(), __all__)
