"""Record: one more application of an op, on operands of any kind."""

from __future__ import annotations

from typing import Any

from gradtape.graph.node import Node, apply, constant, outputs
from gradtape.graph.op import Op
from gradtape.recording.deferred_number import Deferred
from gradtape.recording.handle import Handle
from gradtape.recording.hooks import hooks
from gradtape.recording.operands import enter_operands, partner_dtype, scalar_spec
from gradtape.recording.thread_state import state


def record(op: Op, operands: tuple[Any, ...], params: tuple[Any, ...] = ()) -> Any:
    """Apply an op to operands of any kind. On nodes it builds the graph, on all else it records."""
    for operand in operands:
        if type(operand) is Node:
            return apply(op, _as_nodes(op, operands), params)
    recording = state.recording
    inputs = enter_operands(recording, op, operands)
    if not state.tapes and recording.should_be_cut(op, inputs, params):
        hooks.compute_pending()
    # Entering an operand may have flushed and closed the recording it was meant for.
    while state.recording is not recording:
        recording = state.recording
        inputs = enter_operands(recording, op, operands)
    node = recording.application(op, inputs, params)
    kind = hooks.handle_class
    for operand in operands:
        if isinstance(operand, Handle):
            kind = operand.result_class
            break
    if op.view:
        kind = kind.view_class
    if type(node.spec) is tuple:
        result: Any = tuple(recording.hold_all(outputs(node), kind))
        observed = result[0]
    else:
        result = observed = recording.hold(node, kind)
    if recording.closed and observed.computed is None:
        # The collector ran, and the last tape to hold the recording died. No operand is pending
        # there, or the recording would have lived: once more.
        return record(op, operands, params)
    if op.may_fail:
        recording.defer(node, observed)
        if not recording.lacks_value(node):
            try:
                recording.compute_at_once(observed)
            except BaseException:
                # The traceback holds on to what failed: it must not be tried again with other work.
                recording.forget(result if type(result) is tuple else (result,))
                raise
    return result


def _as_nodes(op: Op, operands: tuple[Any, ...]) -> tuple[Node, ...]:
    operands = tuple(x.read() if type(x) is Deferred else x for x in operands)
    partner = partner_dtype(op, operands)
    return tuple(
        operand
        if type(operand) is Node
        else constant(operand, scalar_spec(operand, type(operand), partner))
        for operand in operands
    )
