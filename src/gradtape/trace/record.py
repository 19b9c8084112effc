"""Record: applies an op to operands of any kind, lazily."""

from __future__ import annotations

from typing import Any

from gradtape.ir.hooks import hooks
from gradtape.ir.node import Node, Params, apply, constant, outputs
from gradtape.ir.op import Op
from gradtape.trace.followed_number import read_all
from gradtape.trace.handle import Handle
from gradtape.trace.operands import Operands, enter_operands, partner_dtype, scalar_spec
from gradtape.trace.thread_state import state


def record(op: Op, operands: Operands, params: Params = ()) -> Any:
    """Apply an op: to nodes it gives a node, to anything else a handle in the recording.

    This is the general path. Closures in `ops.families.elementwise` and the native recorder take
    shortcuts for operands that the recording knows already.
    """
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
        # The garbage collector ran and freed the last tape that held the recording. No operand was
        # pending in it, or it would not have been closed: record once more in the next one.
        return record(op, operands, params)
    if op.may_fail:
        recording.defer(node, observed)
        if not recording.lacks_value(node):
            try:
                recording.compute_at_once(observed)
            except BaseException:
                # The traceback keeps the failed handle alive: later flushes must not run it again.
                recording.forget(result if type(result) is tuple else (result,))
                raise
    return result


def _as_nodes(op: Op, operands: Operands) -> tuple[Node, ...]:
    operands = tuple(map(read_all, operands))
    partner = partner_dtype(op, operands)
    return tuple(
        operand
        if type(operand) is Node
        else constant(operand, scalar_spec(operand, type(operand), partner))  # type: ignore[arg-type]
        for operand in operands
    )
