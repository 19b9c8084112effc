"""Hooks: calls from lower packages into upper ones, listed in one place.

Imports point from upper packages to lower ones. A hook is needed where the call goes the other way:
entering a pending tensor computes it, the derivative rule of a loop differentiates the loop's body.
The module named in `FILLED_BY` assigns the hook when it is imported; no other module assigns
attributes of another package's objects (tests/formalities/test_hooks.py).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

FILLED_BY = {
    "array_over": "gradtape.runtime.buffer_pool",
    "compute_handle": "gradtape.runtime.flush",
    "compute_pending": "gradtape.runtime.flush",
    "consider_native_recorder": "gradtape.compiler.cpython.switch",
    "handle_class": "gradtape.tensor.tensor",
    "leave_full_table": "gradtape.runtime.flush",
    "row_sparse_class": "gradtape.tensor.row_sparse",
    "stack": "gradtape.ops.arrays.joining",
    "carry_out": "gradtape.control.batched_trace",
    "transforms": "gradtape.autodiff.body_transforms",
    "tangents": "gradtape.autodiff.forward",
    "compile_loops": "gradtape.autodiff.sparse.known_patterns",
    "callback_cotangent": "gradtape.control.callbacks",
    "tensor_of_array": "gradtape.control.callbacks",
}


class Hooks:
    """One attribute for each hook, in a slot: reading it costs as much as any other attribute."""

    __slots__ = tuple(FILLED_BY)

    # trace/: a value may hold a buffer of the runtime's pool; this makes an array over it,
    # given the shape and the dtype.
    array_over: Callable[..., Any]
    # A handle that is pending in another recording is computed before it enters this one.
    compute_handle: Callable[[Any], None]
    # A recording that has grown too long is flushed in the middle of recording an op.
    compute_pending: Callable[[], None]
    # Closed recordings are counted: after enough of them the recorder is compiled.
    consider_native_recorder: Callable[[], None]
    # The class of the results of ops none of whose operands is a handle: Tensor.
    handle_class: type[Any]
    # The class of derivatives that are zero but for some rows: RowSparse.
    row_sparse_class: Callable[..., Any]
    # A list of tensors is an operand, too: it enters as their stack, and `stack` is an op.
    stack: Callable[[tuple[Any, ...]], Any]
    # A variable outside a trace is assigned inside it: the handle outside on the assigned node.
    carry_out: Callable[[Any, Any], Any]

    # ops/control: the rules of loops and branches transform the bodies that these ops hold. The
    # object has forward, reverse, batch and detect.
    transforms: Any
    # autodiff/: reverse mode differentiates cotangents along a direction, by forward mode.
    tangents: Callable[..., Any]
    # ops/custom: a callback on tensors is differentiated by running it under a tape.
    callback_cotangent: Callable[..., Any]
    tensor_of_array: Callable[[Any], Any]

    # runtime/: `clear_plans` forgets the graphs that this thread has recorded, too.
    leave_full_table: Callable[[], None]

    # autodiff/sparse/: long greedy loops run as machine code. None: leave them to Python.
    compile_loops: Callable[..., dict[str, Callable[..., int]] | None]

    def __getattr__(self, name: str) -> Any:
        """Reached only while the slot is empty: import the module that fills it."""
        if name not in FILLED_BY:
            raise AttributeError(name)
        # Late: `import gradtape` leaves out some packages until their public names are used, and a
        # program that another process sent, or a test, may need their hooks before that.
        import_module(FILLED_BY[name])
        return object.__getattribute__(self, name)


hooks = Hooks()
