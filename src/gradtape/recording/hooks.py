"""Hooks: what lower rooms call and only upper rooms can do, listed in one place.

Imports point from upper rooms to lower ones. A hook is needed where a lower room starts work that
an upper room defines: reading a pending tensor flushes, for example. The upper module named in
`FILLED_BY` assigns the hook when it is imported; a plain import or a parameter does the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import numpy as np

    from gradtape.recording.handle import Handle

# The module that assigns each hook.
FILLED_BY = {
    "array_over": "gradtape.runtime.buffer_pool",
    "compute_handle": "gradtape.evaluate.flush",
    "compute_pending": "gradtape.evaluate.flush",
    "handle_class": "gradtape.tensor.tensor",
    "row_sparse_class": "gradtape.tensor.row_sparse",
    "stack": "gradtape.ops.arrays.joining",
}


class Hooks:
    """One attribute for each hook. Slots make reading one as cheap as any other attribute."""

    __slots__ = tuple(FILLED_BY)

    # Values may hold a buffer of the runtime's pool: this makes a NumPy array over it.
    array_over: Callable[[Any, tuple[int, ...], np.dtype[Any]], np.ndarray[Any, Any]]
    # Operands that are pending in another recording must be computed before they enter this one.
    compute_handle: Callable[[Handle], None]
    # A recording that has grown too long is flushed in the middle of recording an op.
    compute_pending: Callable[[], None]
    # The class of tensors: results of ops none of whose operands is a handle.
    handle_class: type[Handle]
    # The class of derivatives that are zero but for some rows.
    row_sparse_class: Callable[..., Any]
    # A list of tensors is an operand like their stack, and `stack` is an op.
    stack: Callable[[tuple[Any, ...]], Any]

    def __getattr__(self, name: str) -> NoReturn:
        # Reached only if the slot is empty. Callers catch AttributeError, so it must not be one.
        if name in FILLED_BY:
            raise RuntimeError(f"hooks.{name} is empty: import {FILLED_BY[name]} first.")
        raise AttributeError(name)


hooks = Hooks()
