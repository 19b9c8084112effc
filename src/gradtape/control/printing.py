"""gt.print: text with the values of tensors, written whenever the program runs."""

from __future__ import annotations

import builtins

import numpy as np

from gradtape.control.callbacks import numpy_function
from gradtape.records import dataclass
from gradtape.tensor.tensor import asarray
from gradtape.trace import Trace, any_handle, plain, state

__all__ = ["print"]


@dataclass(frozen=True)
class _Line:
    """Texts between values; equal lines are one op, so that two runs record the same program."""

    texts: tuple[str, ...]

    def __call__(self, *values: np.ndarray) -> np.ndarray:
        """Write the line."""
        shown = [str(each.item()) if each.ndim == 0 else str(each) for each in values]
        parts = [part for pair in zip(self.texts, [*shown, ""], strict=True) for part in pair]
        builtins.print("".join(parts), end="")
        return np.zeros((), bool)


def print(*values: object, sep: str = " ", end: str = "\n") -> None:
    """Print values, also in replayed calls of a `gt.function`.

    >>> @gt.function
    ... def double(x):
    ...     gt.print("x is", x)
    ...     return 2.0 * x
    >>> _ = [double(gt.asarray(float(n))) for n in range(4)]
    x is 0.0
    x is 1.0
    x is 2.0
    x is 3.0

    Tensors, variables and numbers are printed with the values of the call; other objects with their
    text of when the function was recorded. Derivatives pass it by. Bodies of `gt.scan` and the like
    run as a program without effects: there it is an error.
    """
    if isinstance(state.recording, Trace):
        raise ValueError(
            "print: the body of a loop, branch or map is traced, and has no effects. Return the "
            "value from the body, and print it outside."
        )
    texts, operands = [""], []
    for number, value in enumerate(values):
        texts[-1] += sep if number else ""
        if any_handle(value) or type(plain(value)) in (int, float, complex):
            operands.append(asarray(value))  # type: ignore[arg-type]
            texts.append("")
        else:
            texts[-1] += str(value)
    texts[-1] += end
    numpy_function(_Line(tuple(texts)), operands, ((), np.dtype(bool)))
