"""Penalties on variables: `tf.keras.regularizers`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gradtape import abs as size, matrix_transpose, square, sum as total
from gradtape.libraries import check_exports
from gradtape.tf.base.conversion import convert
from gradtape.tf.ops.products import l2_normalize
from gradtape.typing import NonNegative

if TYPE_CHECKING:
    from gradtape.tf.base.tensor import Tensor

__all__ = ["L1", "L1L2", "L2", "OrthogonalRegularizer", "Regularizer", "get", "l1", "l1_l2", "l2"]


class Regularizer:
    """A function of a variable that gives a number to add to the loss; derive your own from it.

    >>> class Largest(tf.keras.regularizers.Regularizer):
    ...     def __call__(self, x):
    ...         return tf.reduce_max(x)
    >>> Largest()(tf.constant([1.0, 2.0])).numpy().item()
    2.0
    """

    def __call__(self, x: Any) -> Tensor:
        """The penalty; none here."""
        return convert(0.0)

    def get_config(self) -> dict[str, Any]:
        """The arguments that make an equal one."""
        return dict(vars(self))

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The one that a configuration describes."""
        return cls(**config)


class L1L2(Regularizer):
    """l1 * sum(|x|) + l2 * sum(x**2).

    >>> round(tf.keras.regularizers.L1L2(0.1, 0.2)(tf.constant([1.0, 2.0])).numpy().item(), 4)
    1.3
    """

    def __init__(self, l1: NonNegative | None = 0.0, l2: NonNegative | None = 0.0) -> None:
        self.l1, self.l2 = float(l1 or 0.0), float(l2 or 0.0)

    def __call__(self, x: Any) -> Tensor:
        x = convert(x)
        found: Tensor | None = None
        for share, measure in ((self.l1, size), (self.l2, square)):
            if share:
                part = share * total(measure(x))
                found = part if found is None else found + part
        return convert(0.0) if found is None else found


class L1(L1L2):
    """l1 * sum(|x|).

    >>> round(tf.keras.regularizers.L1(0.1)(tf.constant([1.0, -2.0])).numpy().item(), 4)
    0.3
    """

    def __init__(self, l1: NonNegative | None = 0.01) -> None:
        super().__init__(0.01 if l1 is None else l1, 0.0)

    def get_config(self) -> dict[str, Any]:
        return {"l1": self.l1}


class L2(L1L2):
    """l2 * sum(x**2).

    >>> round(tf.keras.regularizers.L2(0.1)(tf.constant([1.0, 2.0])).numpy().item(), 4)
    0.5
    """

    def __init__(self, l2: NonNegative | None = 0.01) -> None:
        super().__init__(0.0, 0.01 if l2 is None else l2)

    def get_config(self) -> dict[str, Any]:
        return {"l2": self.l2}


class OrthogonalRegularizer(Regularizer):
    """factor times the mean size of the cosines between rows, or columns, of a matrix.

    >>> tf.keras.regularizers.OrthogonalRegularizer(0.1)(tf.eye(3)).numpy().item()
    0.0
    """

    def __init__(self, factor: NonNegative = 0.01, mode: str = "rows") -> None:
        if mode not in ("rows", "columns"):
            raise ValueError(f'OrthogonalRegularizer: mode={mode!r} is not "rows" or "columns".')
        self.factor, self.mode = float(factor), mode

    def __call__(self, x: Any) -> Tensor:
        x = convert(x)
        if x.ndim != 2:
            raise ValueError(f"OrthogonalRegularizer: expected a matrix, got shape {x.shape}.")
        x = x if self.mode == "rows" else matrix_transpose(x)
        # A row of zeros stays one.
        unit = l2_normalize(x, axis=1)
        count = x.spec.shape[0]
        apart = size(unit @ matrix_transpose(unit)) * (1.0 - np.eye(count, dtype=x.spec.dtype))
        return self.factor * 0.5 * total(apart) / max(count * (count - 1) / 2.0, 1.0)


l1, l2, l1_l2 = L1, L2, L1L2
_BY_NAME = {"l1": L1, "l2": L2, "l1_l2": lambda: L1L2(0.01, 0.01), "l1l2": L1L2}


def get(identifier: Any) -> Any:
    """A regularizer by name; functions as they are, and None for none.

    >>> type(tf.keras.regularizers.get("l2")).__name__
    'L2'
    """
    if identifier is None or (callable(identifier) and not isinstance(identifier, type)):
        return identifier
    if isinstance(identifier, type):
        return identifier()
    if str(identifier).lower() not in _BY_NAME:
        raise ValueError(f"regularizer {identifier!r} is unknown. There are l1, l2 and l1_l2.")
    return _BY_NAME[str(identifier).lower()]()


check_exports(globals(), __all__)
