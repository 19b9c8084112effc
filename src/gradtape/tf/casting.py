"""Casting between dtypes, and complex numbers from their parts."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from gradtape.errors import DtypeError
from gradtape.ops.elementwise.arithmetic import clip
from gradtape.ops.elementwise.complexes import real as core_real
from gradtape.ops.families.casting import cast as core_cast
from gradtape.tf.conversion import common, convert
from gradtape.tf.dispatch import operation
from gradtape.tf.dtypes import as_dtype

__all__ = ["cast", "complex", "saturate_cast"]


@operation
def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """The values in another dtype; complex numbers lose their imaginary part.

    >>> tf.cast([1.7, -1.7], tf.int32).numpy().tolist()
    [1, -1]
    """
    wanted = as_dtype(dtype).dtype
    x = convert(x)
    found = x.spec.dtype
    if found == wanted:
        return x
    if found.kind == "c" and wanted.kind != "c":
        x = core_real(x)
    return core_cast(x, wanted)


@operation
def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Any:
    """The values in another dtype, held within what it can hold.

    >>> tf.dtypes.saturate_cast([300.0, -5.0], tf.uint8).numpy().tolist()
    [255, 0]
    """
    wanted = as_dtype(dtype)
    x = convert(value)
    if wanted.kind in "iu" and x.dtype.kind in "iuf":
        low, high = builtins.int(wanted.min), builtins.int(wanted.max)
        if x.dtype.kind == "f":
            # The nearest floats that are still inside: 2³¹ - 1 is no float32.
            kind = x.dtype.type
            lowest, highest = kind(low), kind(high)
            if builtins.int(highest) > high:
                highest = np.nextafter(highest, kind(0))
            x = clip(x, builtins.float(lowest), builtins.float(highest))
        else:
            bounds = np.iinfo(x.spec.dtype)
            x = clip(x, max(low, bounds.min), min(high, bounds.max))
    return cast(x, wanted)


@operation
def complex(real: Any, imag: Any, name: str | None = None) -> Any:
    """Complex numbers from their real and imaginary parts.

    >>> tf.complex([1.0], [2.0]).numpy()
    array([1.+2.j], dtype=complex64)
    """
    re, im = common([real, imag], "complex")
    if re.dtype.kind != "f":
        raise DtypeError(f"complex: parts of dtype {re.dtype.name} are not floats. Cast them.")
    wanted = np.result_type(re.spec.dtype, np.complex64)
    return core_cast(re, wanted) + core_cast(im, wanted) * 1j
