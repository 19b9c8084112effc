"""Tensors, variables, and the protocols that they implement.

Other packages import:

- `tensor`: `Tensor`, `asarray` and `from_value`, which make one, `evaluate`, `program_of`;
- `variable`: `Variable`;
- `variable_updates`: the assignment of a replayed step, all variables or none;
- `tensor_like`: the static types of operands, `TensorLike` and `TensorLeaf`;
- `row_sparse`: `RowSparse`, the gradient of a look-up;
- `operators`: `Operators`, what `Tensor` and `Variable` have in common;
- `modes`: the eager and the deterministic mode;
- `generator`: `Generator` of random numbers, which `gradtape.random` draws from;
- `array_api`: the dtype and device functions of the array API standard;
- `row_updates`: rows of tables, read, summed and replaced.
"""

from gradtape.tensor.row_sparse import RowSparse
from gradtape.tensor.tensor import Tensor, asarray, from_value  # noqa: F401 - for other packages
from gradtape.tensor.tensor_like import TensorLike  # noqa: F401 - for other packages
from gradtape.tensor.variable import Variable

# These names are public; the other imports are for other packages of gradtape.
__all__ = ["RowSparse", "Tensor", "Variable", "asarray"]
