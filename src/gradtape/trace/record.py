"""Record: applies an op to operands of any kind, lazily.

Operands are tensors, variables, numbers, arrays and nests of these. `enter` gives the node that
stands for one in a recording, `record` applies an op to several. The functions that users call are
the recorders of ops; the native recorder may take their place. The last parameter of a recorder
takes what NumPy's functions have after their operands, for an error; a `*more` would cost ten times
as much per call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.config import MOST_PENDING_APPLICATIONS
from gradtape.dtypes import DType, DTypeLike, of_scalar
from gradtape.ir.hooks import hooks
from gradtape.ir.node import Node, Params, apply, constant, leaf, outputs
from gradtape.ir.op import Op
from gradtape.ir.operators import OPERATORS
from gradtape.ir.spec import Spec, spec
from gradtape.suggestions import no_output
from gradtape.trace.capturing import capturing
from gradtape.trace.followed_number import FOLLOWED, read_all
from gradtape.trace.recording import Recording, state
from gradtape.trace.value import Handle, Value, host_value

if TYPE_CHECKING:
    from gradtape.ops.families.signatures import BinaryFunction, UnaryFunction

# Tensors, variables, numbers, arrays, nests of these, and objects with `__gradtape__`.
AnyOperands = tuple[object, ...]
SCALARS = frozenset((bool, int, float, complex, *FOLLOWED))
# The number of axes that an array of NumPy has at most.
MAX_DIMENSIONS = 64


def enter(recording: Recording, operand: Any, partner: DType | None = None) -> Node:
    """The node that stands for an operand; a Python scalar adapts to the dtype `partner`."""
    kind = type(operand)
    if kind in FOLLOWED:
        value = operand.plain
        return recording.add_number(operand, scalar_spec(value, type(value), partner))
    if kind in SCALARS:
        return recording.add_leaf(operand, scalar_spec(operand, kind, partner))
    method = getattr(operand, "enter", None)
    if method is not None:
        return method(recording)
    convert = getattr(operand, "__gradtape__", None)
    if convert is not None:
        return enter(recording, convert(), partner)
    if isinstance(operand, (list, tuple)) and any_handle(operand):
        return enter(recording, stack_nest(operand), partner)
    return recording.enter_value(entered_array(recording, operand))


def entered_array(recording: Recording, operand: Any, dtype: DTypeLike | None = None) -> Value:
    """The value of host memory; a capture notes arrays that enter its program whole."""
    value = host_value(operand, dtype)
    if type(operand) is np.ndarray:
        capture = capturing(recording)
        if capture is not None:
            capture.note_array(operand, value)
    return value


def scalar_spec(value: Any, kind: type, partner: DType | None) -> Spec:
    """The spec of a Python scalar beside operands of dtype `partner`."""
    dtype = of_scalar(kind, partner)
    if kind is int and dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        if not bounds.min <= value <= bounds.max:
            raise OverflowError(
                f"{value} does not fit {dtype} ({bounds.min} to {bounds.max}). "
                "Cast the tensor to a wider dtype first."
            )
    return spec((), dtype)


def any_handle(nest: object, depth: int = 0) -> bool:
    """Whether a nest of lists holds a tensor or variable."""
    if isinstance(nest, (list, tuple)):
        _check_depth(depth)
        return any(any_handle(item, depth + 1) for item in nest)
    return hasattr(nest, "enter")


def _check_depth(depth: int) -> None:
    if depth > MAX_DIMENSIONS:
        raise ValueError(
            f"asarray: a list is nested more than {MAX_DIMENSIONS} levels deep, or contains "
            "itself. A tensor has one axis for each level: pass a list with fewer."
        )


def stack_nest(nest: Any, depth: int = 0) -> Any:
    """The stack of a list of tensors, which is what NumPy makes of a list of arrays."""
    _check_depth(depth)
    parts = [
        stack_nest(item, depth + 1) if isinstance(item, (list, tuple)) else item for item in nest
    ]
    return record(OPERATORS.stack, tuple(parts), (0,))


def partner_dtype(op: Op, operands: AnyOperands) -> DType | None:
    """The dtype that Python scalars among the operands adapt to, or None."""
    positions = range(len(operands)) if op.weak is None else op.weak
    found = None
    for position in positions:
        dtype = getattr(operands[position], "dtype", None)
        if dtype is not None:
            found = dtype if found is None else np.promote_types(found, dtype)
    return found


def enter_operands(recording: Recording, op: Op, operands: AnyOperands) -> tuple[Node, ...]:
    """The nodes of operands of any kind; Python scalars adapt to the dtype of the others."""
    nodes: list[Any] = []  # None for a scalar, until the dtype of the others is known
    scalars = False
    for operand in operands:
        if type(operand) in SCALARS:
            scalars = True
            nodes.append(None)
            continue
        if getattr(operand, "recording", None) is recording:
            nodes.append(operand.node)  # type: ignore[attr-defined]
            continue
        method = getattr(operand, "enter", None)
        if method is None:
            return _enter_anything(recording, op, operands)
        nodes.append(method(recording))
    if scalars:
        weak = op.weak
        partner = None
        for position, node in enumerate(nodes):
            if node is not None and (weak is None or position in weak):
                dtype = node.spec.dtype
                partner = dtype if partner is None else np.promote_types(partner, dtype)
        for position, node in enumerate(nodes):
            if node is None:
                adapts = weak is None or position in weak
                nodes[position] = enter(recording, operands[position], partner if adapts else None)
    return tuple(nodes)


def _enter_anything(recording: Recording, op: Op, operands: AnyOperands) -> tuple[Node, ...]:
    """`enter_operands` where an array, a list or another foreign object is among the operands."""
    partner = None
    if any(type(operand) in SCALARS for operand in operands):
        operands = _with_dtypes(operands)
        partner = partner_dtype(op, operands)
    weak = op.weak
    return tuple(
        enter(recording, operand, partner if weak is None or position in weak else None)
        for position, operand in enumerate(operands)
    )


def _with_dtypes(operands: AnyOperands) -> AnyOperands:
    """The operands with lists and other nests as arrays, so that scalars can adapt to them."""
    return tuple(
        operand
        if type(operand) in SCALARS or hasattr(operand, "dtype")
        else (stack_nest(operand) if any_handle(operand) else host_value(operand).array)
        for operand in operands
    )


def record(op: Op, operands: AnyOperands, params: Params = ()) -> Any:
    """Apply an op: to nodes it gives a node, to anything else a handle in the recording.

    This is the general path. The recorders below and the native recorder take shortcuts for
    operands that the recording has already entered.
    """
    for operand in operands:
        if type(operand) is Node:
            return apply(op, _as_nodes(op, operands), params)
    recording = state.recording
    inputs = enter_operands(recording, op, operands)
    long = len(recording.log) >= MOST_PENDING_APPLICATIONS
    if long and not state.tapes and recording.should_be_cut(op, inputs, params):
        hooks.evaluator.flush(recording)
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


def _as_nodes(op: Op, operands: AnyOperands) -> tuple[Node, ...]:
    operands = tuple(map(read_all, operands))
    partner = partner_dtype(op, operands)
    return tuple(
        operand
        if type(operand) is Node
        else constant(operand, scalar_spec(operand, type(operand), partner))  # type: ignore[arg-type]
        for operand in operands
    )


# The functions that users call, one for each op. They find an application that was recorded before
# by two or three look-ups. Operands that are not tensors or variables go to `record`.

new: Any = object.__new__
# Functions of one and of two operands, which the native recorder may take over.
RECORDERS: list[Any] = []


def op_of(function: Callable[..., Any]) -> Op:
    """The op that a function of this family records."""
    op: Op = function.op  # type: ignore[attr-defined]
    return op


def unary_function(op: Op) -> UnaryFunction:
    """The recorder of an op with one operand."""
    native: Any = None

    def use(found: Any) -> None:
        nonlocal native
        native = found

    def function(x: Any, /, out: None = None) -> Any:
        if out is not None:
            raise no_output(op.name, out)
        if native is not None:
            return native(x)
        if type(x) is Node:  # in a derivative rule
            return apply(op, (x,))
        recording = state.recording
        try:
            # `entered` written out: the call would cost time.
            if x.recording is recording:
                a = x.node
            else:
                stamp, a = x.computed.entry
                if stamp != recording.stamp:
                    a = x.enter(recording)
        except AttributeError:
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
            raise no_output(op.name, out)
        if native is not None:
            return native(x, y)
        recording, b = state.recording, None
        try:
            # `entered` written out: the calls would cost time.
            if x.recording is recording:
                a = x.node
            else:
                stamp, a = x.computed.entry
                if stamp != recording.stamp:
                    a = x.enter(recording)
            if type(y) in (float, int):
                b = scalar_leaf(recording, y, a.spec)
            elif y.recording is recording:
                b = y.node
            else:
                stamp, b = y.computed.entry
                if stamp != recording.stamp:
                    b = y.enter(recording)
        except AttributeError:
            if type(x) in (float, int):
                return reflected(y, x)
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
        recording, x = state.recording, operands[0]
        if len(operands) > 1 or type(recording) is not Recording:
            return record(op, operands, params)  # in a trace, which guards numbers in params
        try:
            a = x.node if x.recording is recording else x.enter(recording)
        except AttributeError:
            return record(op, operands, params)
        return application(recording, op, operands, (a,), params, x.result_class)

    function.op = op  # type: ignore[attr-defined]
    return function


def entered(recording: Recording, x: Any) -> Node | None:
    """The node of a tensor or variable, which may enter the recording; otherwise None."""
    try:
        if x.recording is recording:
            return x.node
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
    if state.recording is not recording:  # entering an operand has flushed it
        return record(op, operands, params)
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
