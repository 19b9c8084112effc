"""Mathematical functions under TensorFlow's names: `tf.math`."""

from __future__ import annotations

from typing import Any

from gradtape.ops.reductions.reduction import all as holds
from gradtape.tf import special
from gradtape.tf.conversion import common, convert
from gradtape.tf.dispatch import operation
from gradtape.tf.elementwise import FUNCTIONS
from gradtape.tf.nn import log_softmax, softmax
from gradtape.tf.products import l2_normalize
from gradtape.tf.reductions import (
    add_n,
    argmax,
    argmin,
    count_nonzero,
    cumprod,
    cumsum,
    cumulative_logsumexp,
    reduce_all,
    reduce_any,
    reduce_euclidean_norm,
    reduce_logsumexp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_std,
    reduce_sum,
    reduce_variance,
    zero_fraction,
)
from gradtape.tf.segments import (
    segment_max,
    segment_mean,
    segment_min,
    segment_prod,
    segment_sum,
    unsorted_segment_max,
    unsorted_segment_mean,
    unsorted_segment_min,
    unsorted_segment_prod,
    unsorted_segment_sqrt_n,
    unsorted_segment_sum,
)
from gradtape.tf.sorting import (
    bincount,
    confusion_matrix,
    in_top_k,
    invert_permutation,
    top_k,
)
from gradtape.tf.special import (
    bessel_i0e,
    bessel_i1e,
    betainc,
    igamma,
    igammac,
    lbeta,
    polygamma,
    zeta,
)
from gradtape.tf.suggestions import attribute_finder
from gradtape.tf.tensor import Tensor

# Activations of the same table belong to tf.nn.
ELEMENTWISE = [name for name in FUNCTIONS if name not in ("elu", "relu", "selu")]

__all__ = [
    *ELEMENTWISE,
    "accumulate_n", "add_n", "argmax", "argmin", "bessel_i0e", "bessel_i1e", "betainc", "bincount",
    "confusion_matrix", "count_nonzero", "cumprod", "cumsum", "cumulative_logsumexp", "igamma",
    "igammac", "in_top_k", "invert_permutation", "is_non_decreasing", "is_strictly_increasing",
    "l2_normalize", "lbeta", "log_softmax", "polygamma", "polyval", "reciprocal_no_nan",
    "reduce_all", "reduce_any", "reduce_euclidean_norm", "reduce_logsumexp", "reduce_max",
    "reduce_mean", "reduce_min", "reduce_prod", "reduce_std", "reduce_sum", "reduce_variance",
    "scalar_mul", "segment_max", "segment_mean", "segment_min", "segment_prod", "segment_sum",
    "softmax", "special", "top_k", "unsorted_segment_max", "unsorted_segment_mean",
    "unsorted_segment_min", "unsorted_segment_prod", "unsorted_segment_sqrt_n",
    "unsorted_segment_sum", "zero_fraction", "zeta",
]  # fmt: skip

globals().update({name: FUNCTIONS[name] for name in ELEMENTWISE})


@operation
def accumulate_n(
    inputs: Any, shape: Any = None, tensor_dtype: Any = None, name: str | None = None
) -> Tensor:
    """The sum of a list of tensors of one shape.

    >>> tf.math.accumulate_n([[1.0, 2.0], [3.0, 4.0]]).numpy().tolist()
    [4.0, 6.0]
    """
    return add_n(inputs)


@operation
def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Tensor:
    """A number times a tensor.

    >>> tf.math.scalar_mul(2.0, [1.0, 2.0]).numpy().tolist()
    [2.0, 4.0]
    """
    return FUNCTIONS["multiply"](scalar, x)


@operation
def polyval(coeffs: Any, x: Any, name: str | None = None) -> Tensor:
    """A polynomial, given its coefficients from the highest power down.

    >>> tf.math.polyval([1.0, 2.0, 3.0], 2.0).numpy().item()
    11.0
    """
    *parts, x = common([*coeffs, x], "polyval")
    if not parts:
        return x * 0
    total = parts[0] + x * 0
    for part in parts[1:]:
        total = total * x + part
    return total


@operation
def reciprocal_no_nan(x: Any, name: str | None = None) -> Tensor:
    """One over the value, and 0 where it is 0.

    >>> tf.math.reciprocal_no_nan([2.0, 0.0]).numpy().tolist()
    [0.5, 0.0]
    """
    return FUNCTIONS["divide_no_nan"](1.0, x)


@operation
def is_non_decreasing(x: Any, name: str | None = None) -> Tensor:
    """Whether no element is smaller than the one before.

    >>> bool(tf.math.is_non_decreasing([1, 1, 2]))
    True
    """
    flat = convert(x).reshape(-1)
    return holds(flat[1:] >= flat[:-1])


@operation
def is_strictly_increasing(x: Any, name: str | None = None) -> Tensor:
    """Whether every element is larger than the one before.

    >>> bool(tf.math.is_strictly_increasing([1, 1, 2]))
    False
    """
    flat = convert(x).reshape(-1)
    return holds(flat[1:] > flat[:-1])


__getattr__ = attribute_finder(__name__, globals())
