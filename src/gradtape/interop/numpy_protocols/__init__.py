"""NumPy's functions record when they are called on tensors: NEP 13 (ufuncs), NEP 18 (functions).

The tables are complete: every other NumPy function raises and says so. `binding` puts NumPy's own
signature in front of each function. The functions of the tables have NumPy's own parameters, and
no annotations: NumPy documents them. The tables name most of the library, matrices and transforms
too: they are loaded by the first NumPy function that meets a tensor, through a hook.

Other packages import:

- `covered`: the names of the NumPy functions that take tensors;
- `ufuncs`: `array_ufunc`, which gradtape.tf calls for what it has no rule of its own for.
"""

from __future__ import annotations

__all__ = ["covered"]


def covered() -> list[str]:
    """The NumPy functions that record when called on tensors.

    >>> "sin" in gt.numpy_protocols.covered(), "linalg.solve" in gt.numpy_protocols.covered()
    (True, True)
    """
    # The tables name modules that not everyone needs.
    from gradtape.interop.numpy_protocols import dispatch

    return dispatch.covered()
