"""Types of arguments that many functions share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gradtape import Tensor as CoreTensor
from gradtape.tensor import tensor_like
from gradtape.tf.base.dtypes import DType

# Everything that `convert` makes a tensor of.
TensorLike: TypeAlias = tensor_like.TensorLike

# A NumPy array of any dtype.
Array: TypeAlias = np.ndarray[Any, Any]

# An integer whose value is needed at once, and several of them.
IntLike: TypeAlias = "int | np.integer[Any] | CoreTensor"
IntsLike: TypeAlias = "IntLike | Sequence[IntLike] | Array"

# The same, of at least 0 and of at least 1: calls check that (see annotated_kinds).
CountLike: TypeAlias = IntLike
SizeLike: TypeAlias = IntLike

# One axis, several, or (None) all of them.
Axis: TypeAlias = "IntsLike | None"

# Lengths. One may be None, or -1: it is not known, or follows from the others.
ShapeLike: TypeAlias = "IntLike | Sequence[IntLike | None] | Array"

DTypeLike: TypeAlias = "DType | np.dtype[Any] | type | str"

# The `name` argument of TensorFlow's functions: accepted, and without effect.
Name: TypeAlias = "str | None"

# A function of the user's, of tensors.
UserFunction: TypeAlias = Callable[..., Any]
