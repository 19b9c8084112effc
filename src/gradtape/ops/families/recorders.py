"""Recorders: the functions that record applications of element-wise ops.

Their fast paths find an application that was recorded before by two or three look-ups. `record`
handles all other cases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradtape.ir import Node, Op, Spec
from gradtape.ir.node import apply, leaf
from gradtape.ops.families.signatures import BinaryFunction, UnaryFunction
from gradtape.trace import Handle, Recording, record, state

new: Any = object.__new__


def op_of(function: Callable[..., Any]) -> Op:
    """The op that a function of this family records."""
    op: Op = function.op  # type: ignore[attr-defined]
    return op


# Functions of one and of two operands, which a native recorder may take over (recording.native).
RECORDERS: list[Any] = []


def unary_function(op: Op) -> UnaryFunction:
    native: Any = None

    def use(found: Any) -> None:
        nonlocal native
        native = found

    def function(x: Any, /) -> Any:
        if native is not None:
            return native(x)
        recording = state.recording
        try:
            stamp = recording.stamp
            if x.recording is recording:
                a = x.node
            elif type(x) is Node:  # in a derivative rule
                return apply(op, (x,))
            else:
                entered, a = x.computed.entry
                if entered != stamp:
                    # A variable, or a value new to this recording: entering it may flush.
                    a = x.enter(recording)
                    if state.recording is not recording:
                        return record(op, (x,))
            key = (op, a)
            node = recording.interned.get(key)
            if node is not None and node.stamp < stamp:
                node.stamp = stamp
                recording.log.append(node)
            elif recording.is_full() and not state.tapes:
                return record(op, (x,))
            elif node is None:
                node = recording.first_application(key, op, (a,), ())
            else:
                node = recording.twin(key, node)
            # Handle.__init__ written out: the call would cost time.
            handle = new(x.result_class)
            handle.node = node
            handle.recording = recording
            handle.computed = None
            recording.handles.append(handle)
            if recording.closed and handle.computed is None:
                return record(op, (x,))
            return handle
        except AttributeError:
            return record(op, (x,))

    function.op = op  # type: ignore[attr-defined]
    function.use = use  # type: ignore[attr-defined]
    return function


def binary_function(op: Op, otherwise: Callable[..., Any] = record) -> BinaryFunction:
    """The recorder of `op`; operands without a node in the recording go to `otherwise`."""
    native: Any = None
    reflected = reflected_function(op)

    def use(found: Any) -> None:
        nonlocal native
        native = found

    def function(x: Any, y: Any, /) -> Any:
        if native is not None:
            return native(x, y)
        # The fast path: if this application was recorded before, two or three look-ups find its
        # node. Operands without a node in the recording go to `record`, which handles all cases.
        recording = state.recording
        try:
            stamp = recording.stamp
            if x.recording is recording:
                a = x.node
            else:
                entered, a = x.computed.entry
                if entered != stamp:
                    # A variable, or a value new to this recording: entering it may flush.
                    a = x.enter(recording)
                    if state.recording is not recording:
                        return otherwise(op, (x, y))
            kind = type(y)
            if kind is float or (kind is int and a.spec.inexact):
                # `scalar_leaf` written out: the call would cost time.
                leaves = recording.leaves
                of = a.spec.scalars.get(kind) or a.spec.scalar(kind)
                b = recording.interned.get((of, len(leaves)))
                if b is None:
                    b = leaf(len(leaves), of)
                leaves.append(y)
            else:
                if y.recording is recording:
                    b = y.node
                else:
                    entered, b = y.computed.entry
                    if entered != stamp:
                        b = y.enter(recording)
                        if state.recording is not recording:
                            return record(op, (x, y))
            key = (op, a, b)
            node = recording.interned.get(key)
            if node is not None and node.stamp < stamp:
                node.stamp = stamp
                recording.log.append(node)
            elif recording.is_full() and not state.tapes:
                return record(op, (x, y))
            elif node is None:
                node = recording.first_application(key, op, (a, b), ())
            else:
                node = recording.twin(key, node)
            # Handle.__init__ written out: the call would cost time.
            handle = new(x.result_class)
            handle.node = node
            handle.recording = recording
            handle.computed = None
            recording.handles.append(handle)
            # As in `record`: a garbage collection may have closed the recording in between.
            if recording.closed and handle.computed is None:
                return record(op, (x, y))
            return handle
        except AttributeError:
            return reflected(y, x) if type(x) in REFLECTED else otherwise(op, (x, y))

    function.op = op  # type: ignore[attr-defined]
    function.otherwise = otherwise  # type: ignore[attr-defined]
    function.use = use  # type: ignore[attr-defined]
    function.reflected = reflected  # type: ignore[attr-defined]
    return function


def reflected_function(op: Op) -> BinaryFunction:
    """The recorder of `op` if the tensor is the right operand, as in `1.0 - x`."""

    def function(right: Any, left: Any, /) -> Any:
        recording = state.recording
        b = known_node(recording, right)
        kind = type(left)
        if b is None or not (kind is float or (kind is int and b.spec.inexact)):
            return record(op, (left, right))
        a = scalar_leaf(recording, left, kind, b.spec)
        return application(recording, op, (left, right), (a, b), (), right.result_class)

    return function


def parametric(op: Op) -> Callable[..., Any]:
    """The recorder of an op with params, which come first, by position, as in `polygamma(1, x)`."""
    count = len(op.params)

    def function(*arguments: Any) -> Any:
        params, operands = arguments[:count], arguments[count:]
        if len(operands) == 1:
            recording = state.recording
            a = known_node(recording, operands[0])
            if a is not None:
                kind = operands[0].result_class
                return application(recording, op, operands, (a,), params, kind)
        return record(op, operands, params)

    function.op = op  # type: ignore[attr-defined]
    return function


REFLECTED = frozenset((float, int))


def known_node(recording: Recording, x: Any) -> Node | None:
    """The node of a handle in this recording, or None if the handle has not entered it."""
    try:
        if x.recording is recording:
            return x.node  # type: ignore[no-any-return]  # a local would cost time
        stamp, node = x.computed.entry
    except AttributeError:
        return None
    return node if stamp == recording.stamp else None


def scalar_leaf(recording: Recording, value: object, kind: type, beside: Spec) -> Node:
    """A new leaf for a Python scalar, whose dtype adapts to an operand with spec `beside`."""
    leaves = recording.leaves
    of = beside.scalars.get(kind) or beside.scalar(kind)
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
    handle = recording.hold(node, kind)
    if recording.closed and handle.computed is None:
        return record(op, operands, params)
    return handle
