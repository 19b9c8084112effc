"""Types of arguments that layers share: the name of something, its class, or the thing itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import TensorLike
from gradtape.tf.keras.constraints import Constraint
from gradtape.tf.keras.initializers import Initializer
from gradtape.tf.keras.regularizers import Regularizer

# A function of an input; None stands for the identity.
ActivationLike: TypeAlias = str | Callable[[Tensor], TensorLike] | None

# A function of a shape and a dtype, or the numbers to begin with.
InitializerLike: TypeAlias = str | type[Initializer] | Callable[..., TensorLike] | TensorLike

# A function of a variable: the penalty, or the value that it may have; None stands for none.
RegularizerLike: TypeAlias = str | type[Regularizer] | Callable[[Tensor], TensorLike] | None
ConstraintLike: TypeAlias = str | type[Constraint] | Callable[[Tensor], TensorLike] | None
