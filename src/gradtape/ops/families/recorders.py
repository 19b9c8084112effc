"""Recorders: the functions that record applications of element-wise ops.

They find an application that was recorded before by two or three look-ups. Operands that are not
tensors or variables go to `record`, which handles all cases. The last parameter takes what NumPy's
functions have after their operands, for an error; a `*more` would cost ten times as much per call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradtape.errors import shown
from gradtape.ir import Node, Op, Spec
from gradtape.ir.node import apply, leaf
from gradtape.ops.families.signatures import BinaryFunction, UnaryFunction
from gradtape.suggestions import tables
from gradtape.trace import Handle, Recording, record, state

new: Any = object.__new__
# Functions of one and of two operands, which the native recorder may take over.
RECORDERS: list[Any] = []


def op_of(function: Callable[..., Any]) -> Op:
    """The op that a function of this family records."""
    op: Op = function.op  # type: ignore[attr-defined]
    return op


def no_output(op: Op, out: object) -> TypeError:
    """The error for an argument after the operands."""
    remedy = tables()["operands"].get(op.name) or tables()["operands"]["others"]
    return TypeError(f"{op.name}: {shown(out)} follows the operands. {remedy}.")


def unary_function(op: Op) -> UnaryFunction:
    """The recorder of an op with one operand."""
    native: Any = None

    def use(found: Any) -> None:
        nonlocal native
        native = found

    def function(x: Any, /, out: None = None) -> Any:
        if out is not None:
            raise no_output(op, out)
        if native is not None:
            return native(x)
        if type(x) is Node:  # in a derivative rule
            return apply(op, (x,))
        recording = state.recording
        a = entered(recording, x)
        if a is None:
            return record(op, (x,))
        return application(recording, op, (x,), (a,), (), x.result_class)

    function.op = op  # type: ignore[attr-defined]
    function.use = use  # type: ignore[attr-defined]
    return function


def binary_function(op: Op, otherwise: Callable[..., Any] = record) -> BinaryFunction:
    """The recorder of `op`; operands that cannot enter the recording go to `otherwise`."""
    native: Any = None

    def use(found: Any) -> None:
        nonlocal native
        native = found

    def reflected(right: Any, left: Any, /) -> Any:
        """The same if the tensor is the right operand, as in `1.0 - x`."""
        recording = state.recording
        # Beside any other left operand, this one enters the recording as the second.
        b = entered(recording, right) if type(left) in (float, int) else None
        a = None if b is None else scalar_leaf(recording, left, b.spec)
        if a is None:
            return record(op, (left, right))
        return application(recording, op, (left, right), (a, b), (), right.result_class)

    def function(x: Any, y: Any, /, out: None = None) -> Any:
        if out is not None:
            raise no_output(op, out)
        if native is not None:
            return native(x, y)
        recording = state.recording
        a = entered(recording, x)
        if a is None:
            return reflected(y, x) if type(x) in (float, int) else otherwise(op, (x, y))
        is_scalar = type(y) in (float, int)
        b = scalar_leaf(recording, y, a.spec) if is_scalar else entered(recording, y)
        if b is None:
            return otherwise(op, (x, y))
        return application(recording, op, (x, y), (a, b), (), x.result_class)

    function.op = op  # type: ignore[attr-defined]
    function.otherwise = otherwise  # type: ignore[attr-defined]
    function.use = use  # type: ignore[attr-defined]
    function.reflected = reflected  # type: ignore[attr-defined]
    return function


def parametric(op: Op) -> Callable[..., Any]:
    """The recorder of an op with params, which come first, by position, as in `polygamma(1, x)`."""
    count = len(op.params)

    def function(*arguments: Any) -> Any:
        params, operands = arguments[:count], arguments[count:]
        recording = state.recording
        a = entered(recording, operands[0]) if len(operands) == 1 else None
        if a is None:
            return record(op, operands, params)
        return application(recording, op, operands, (a,), params, operands[0].result_class)

    function.op = op  # type: ignore[attr-defined]
    return function


def entered(recording: Recording, x: Any) -> Node | None:
    """The node of a tensor or variable, which may enter the recording; otherwise None."""
    try:
        if x.recording is recording:
            return x.node  # type: ignore[no-any-return]  # a local would cost time
        node: Node
        stamp, node = x.computed.entry
        if stamp != recording.stamp:
            node = x.enter(recording)
            # That may have flushed the recording.
            return node if state.recording is recording else None
    except AttributeError:
        return None
    return node


def scalar_leaf(recording: Recording, value: object, beside: Spec) -> Node | None:
    """A new leaf for a float or int, whose dtype adapts to an operand with spec `beside`."""
    kind = type(value)
    if not (kind is float or (kind is int and beside.inexact)):
        return None
    return new_leaf(recording, value, beside.scalars.get(kind) or beside.scalar(kind))


def new_leaf(recording: Recording, value: object, of: Spec) -> Node:
    """The next leaf of the recording, with its value."""
    leaves = recording.leaves
    found = recording.interned.get((of, len(leaves)))
    if found is None:
        found = leaf(len(leaves), of)
    leaves.append(value)
    return found


def application(
    recording: Recording, op: Op, operands: Any, inputs: Any, params: Any, kind: type[Handle]
) -> Any:
    """Record an application to nodes of this recording, and return its handle."""
    key = (op, params, *inputs) if params else (op, *inputs)
    node = recording.interned.get(key)
    if node is not None and node.stamp < recording.stamp:
        node.stamp = recording.stamp
        recording.log.append(node)
    elif recording.is_full() and not state.tapes:
        return record(op, operands, params)
    elif node is None:
        node = recording.first_application(key, op, inputs, params)
    else:
        node = recording.twin(key, node)
    # Handle.__init__ written out: the call would cost time.
    handle = new(kind)
    handle.node = node
    handle.recording = recording
    handle.computed = None
    recording.handles.append(handle)
    # As in `record`: a garbage collection may have closed the recording in between.
    if recording.closed and handle.computed is None:
        return record(op, operands, params)
    return handle
