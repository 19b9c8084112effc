"""Names of types for the annotations of functions on tensors.

| name | values |
|---|---|
| `TensorLike`, `TensorLeaf` | anything that `gt.asarray` takes; one tensor, array or number |
| `DType`, `DTypeLike` | a NumPy dtype; also its name, a class, or an object that has a dtype |
| `ShapeLike`, `Axes` | an integer or a sequence of integers; also None |
| `Count`, `Size`, `Sizes` | integers of at least 0, and of at least 1; one for each axis |
| `Finite`, `NonNegative`, `Positive` | finite real numbers: any, at least 0, above 0 |
| `Bound`, `Probability`, `Decay` | at least 0 or infinite, from 0 to 1, from 0 to below 1 |
| `PathLike` | the path of a file or folder |
| `ProgressChoice` | the argument of `gt.set_progress` |

To a type checker a `Size` is an int. Functions that `gt.libraries.checked` wraps refuse other
values.

>>> from gradtape.typing import Size
>>> @gt.libraries.checked
... def half(n: "Size"):
...     return n // 2
>>> try:
...     half(0)
... except ValueError as error:
...     print(error)
half: n=0 is not a whole number of at least 1. Pass one.
"""

import os

from gradtape.annotated_kinds import (
    Bound,
    Count,
    Decay,
    Finite,
    NonNegative,
    Positive,
    Probability,
    Size,
    Sizes,
)
from gradtape.dtypes import DType, DTypeLike
from gradtape.ops.families.signatures import Axes, ShapeLike
from gradtape.progress import Choice as ProgressChoice
from gradtape.tensor.tensor_like import TensorLeaf, TensorLike

PathLike = str | os.PathLike[str]

__all__ = [
    "Axes",
    "Bound",
    "Count",
    "DType",
    "DTypeLike",
    "Decay",
    "Finite",
    "NonNegative",
    "PathLike",
    "Positive",
    "Probability",
    "ProgressChoice",
    "ShapeLike",
    "Size",
    "Sizes",
    "TensorLeaf",
    "TensorLike",
]
