"""Control flow: cond, case, while_loop, map_fn, scan and their relatives.

Where values are known, branches are taken and loops run in Python, as TensorFlow does outside a
`tf.function`: what was taken is what is recorded. Where they are not, as inside `vectorized_map`,
gradtape's own control flow takes over; loops whose values keep their shapes use it wherever it can
be differentiated, since it compiles them whole.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import gradtape
from gradtape.control import vmap as vectorize
from gradtape.errors import DtypeError, NoValueError, ShapeError
from gradtape.ops.arrays.creation import zeros
from gradtape.ops.arrays.joining import stack
from gradtape.ops.elementwise.arithmetic import stop_gradient
from gradtape.pytree import flatten, map_leaves, unflatten
from gradtape.recording.thread_state import state
from gradtape.recording.trace import Trace
from gradtape.tf.conversion import convert
from gradtape.tf.dispatch import fresh, graphs
from gradtape.tf.shapes import TensorSpec
from gradtape.tf.tensor import adopt

__all__ = [
    "case", "cond", "foldl", "foldr", "map_fn", "scan", "switch_case", "vectorized_map",
    "while_loop",
]  # fmt: skip

# What gradtape's loops refuse and a loop in Python can do: changing shapes, looks at values.
_REFUSALS = (ShapeError, DtypeError, NoValueError, ValueError, TypeError)


def _structured(name: str) -> Any:
    """gradtape's own control flow of this name, where it has it."""
    return getattr(gradtape, name, None)


def _has_no_value(tensor: Any) -> bool:
    recording = state.recording
    return isinstance(recording, Trace) and recording.lacks_value(tensor.enter(recording))


def _given(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function on tensors of ours, giving tensors."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return map_leaves(convert, function(*[adopt(arg) for arg in args]))

    return call


def _may_end_gradients(loop: Callable[..., Any]) -> Callable[..., Any]:
    """A loop whose `back_prop=False` ends gradients inside functions; elsewhere TensorFlow's does
    not either."""
    signature = inspect.signature(loop)

    @functools.wraps(loop)
    def inside(*args: Any, **kwargs: Any) -> Any:
        found = loop(*args, **kwargs)
        if not state.recording.capturing:
            return found
        if signature.bind(*args, **kwargs).arguments.get("back_prop", True):
            return found
        return map_leaves(stop_gradient, found)

    return inside


@fresh
def cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """`true_fn()` if `pred` holds, else `false_fn()`.

    >>> x = tf.constant(3.0)
    >>> tf.cond(x > 1.0, lambda: x * x, lambda: x).numpy().item()
    9.0
    """
    for function, what in ((true_fn, "true_fn"), (false_fn, "false_fn")):
        if not callable(function):
            raise TypeError(f"cond: {what} must be callable.")
    if not isinstance(pred, bool):
        pred = convert(pred)
        if pred.spec.shape:
            raise ShapeError(f"cond: a predicate of shape {pred.shape} is not one truth value.")
        if _has_no_value(pred):
            choose = _structured("cond")
            if choose is not None:
                return choose(pred, _given(true_fn), _given(false_fn))  # type: ignore[arg-type]
    return (true_fn if pred else false_fn)()  # type: ignore[misc]


@fresh
def case(
    pred_fn_pairs: Any,
    default: Callable[[], Any] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """The function beside the first predicate that holds, else the default.

    >>> x = tf.constant(5.0)
    >>> tf.case(
    ...     [(x < 1.0, lambda: -x), (x < 10.0, lambda: x)], default=lambda: 0 * x
    ... ).numpy().item()
    5.0
    """
    pairs = list(pred_fn_pairs.items() if isinstance(pred_fn_pairs, dict) else pred_fn_pairs)
    if not pairs and default is None:
        raise ValueError("case: there is nothing to choose from.")
    if exclusive and sum(bool(pred) for pred, _ in pairs) > 1:
        raise ValueError("case: several predicates hold, and exclusive=True.")
    return _chosen(pairs, default)


def _chosen(pairs: Sequence[Any], default: Callable[[], Any] | None) -> Any:
    if not pairs:
        if default is None:
            raise ValueError("case: none of the predicates holds, and there is no default.")
        return default()
    (pred, function), *rest = pairs
    return cond(pred, function, lambda: _chosen(rest, default))


@fresh
def switch_case(
    branch_index: Any,
    branch_fns: Any,
    default: Callable[[], Any] | None = None,
    name: str = "switch_case",
) -> Any:
    """The function with a number; the default, or the last, where there is none with it.

    >>> tf.switch_case(tf.constant(1), [lambda: 10, lambda: 20])
    20
    """
    items = branch_fns.items() if isinstance(branch_fns, dict) else list(branch_fns)
    if items and isinstance(next(iter(items)), tuple):
        functions = {int(number): function for number, function in items}
    else:
        functions = dict(enumerate(items))
    last = default or functions[max(functions)]
    index = convert(branch_index)
    if _has_no_value(index) and _structured("cond") is not None:
        pairs = [(index == number, function) for number, function in functions.items()]
        return _chosen(pairs, last)
    return functions.get(int(index), last)()


@fresh
@_may_end_gradients
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: str | None = None,
) -> Any:
    """`body(*loop_vars)` again and again, as long as `cond(*loop_vars)` holds.

    >>> i, x = tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2.0), (0, 1.0))
    >>> i.numpy().item(), x.numpy().item()
    (3, 8.0)
    """
    if not isinstance(loop_vars, (list, tuple)):
        loop_vars = [loop_vars]
    start = map_leaves(convert, loop_vars)
    limit = None if maximum_iterations is None else int(maximum_iterations)
    unknown = any(_has_no_value(leaf) for leaf in flatten(start)[0])
    loop = _structured("while_loop") if shape_invariants is None else None
    if loop is not None and (unknown or limit is not None or _is_watched()):
        try:
            return _compiled(loop, cond, body, start, limit)
        except _REFUSALS:
            if unknown:
                raise
    steps = 0
    values: Any = start
    while (limit is None or steps < limit) and bool(convert(cond(*values))):
        values = map_leaves(convert, _as_vars(body(*values), start))
        steps += 1
    return values


def _is_watched() -> bool:
    """Whether a tape of the user's tells which derivatives may be asked for.

    Where `tf.gradients` may ask later, a loop that is one op does not know how many steps to go
    back through, and has to be run step by step.
    """
    return bool(state.tapes) and not graphs.is_running()


def _compiled(loop: Any, cond: Any, body: Any, start: Any, limit: int | None) -> Any:
    """The loop as one op; it sees tensors without a value, once."""

    def holds(values: Any) -> Any:
        return convert(cond(*adopt(values)))

    def step(values: Any) -> Any:
        return map_leaves(convert, _as_vars(body(*adopt(values)), start))

    return loop(holds, step, start, limit)


def _as_vars(found: Any, start: Any) -> Any:
    """What a body returned, in the structure of the loop variables."""
    if not isinstance(found, (list, tuple)):
        found = [found]
    if len(found) != len(start):
        raise ValueError(
            f"while_loop: body returned {len(found)} values for {len(start)} loop variables."
        )
    return type(start)(found) if not hasattr(start, "_fields") else type(start)(*found)


def _elements(name: str, elems: Any) -> tuple[list[Any], Any, int]:
    """Sequences of one length as tensors, their structure, and the length."""
    leaves, structure = flatten(elems)
    tensors = [convert(leaf) for leaf in leaves]
    if not tensors:
        raise ValueError(f"{name}: there are no elements.")
    for tensor in tensors:
        if not tensor.ndim:
            raise ShapeError(f"{name}: an element without axes has nothing to go along.")
    lengths = {tensor.spec.shape[0] for tensor in tensors}
    if len(lengths) > 1:
        raise ShapeError(f"{name}: elements differ in length: {sorted(lengths)}.")
    return tensors, structure, lengths.pop()


def _stacked(rows: list[Any]) -> Any:
    _, structure = flatten(rows[0])
    columns = zip(*(flatten(row)[0] for row in rows), strict=True)
    return unflatten(structure, [stack(list(column)) for column in columns])


@fresh
@_may_end_gradients
def map_fn(
    fn: Callable[[Any], Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: Any = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:
    """The function applied to each element along axis 0 in turn, with results stacked.

    >>> tf.map_fn(lambda x: x * x, tf.constant([1.0, 2.0])).numpy().tolist()
    [1.0, 4.0]
    """
    tensors, structure, count = _elements("map_fn", elems)
    declared = dtype if fn_output_signature is None else fn_output_signature

    def call(*parts: Any) -> Any:
        return _declared(fn(unflatten(structure, parts)), declared)

    if not count:
        # What the function would give, of zeros that are never computed.
        return map_leaves(
            lambda y: zeros((0, *y.spec.shape), dtype=y.spec.dtype),
            call(*[adopt(zeros(t.spec.shape[1:], dtype=t.spec.dtype)) for t in tensors]),
        )
    loop = _structured("map")
    if loop is not None:
        try:
            return loop(lambda parts: call(*adopt(list(parts))), list(tensors))
        except _REFUSALS:
            if any(map(_has_no_value, tensors)):
                raise
    return _stacked([call(*[tensor[k] for tensor in tensors]) for k in range(count)])


def _declared(result: Any, declared: Any) -> Any:
    """Results as tensors, of the dtypes that were announced."""
    if declared is None:
        return map_leaves(convert, result)
    dtypes = flatten(declared)[0]
    leaves, structure = flatten(result)
    if len(dtypes) == 1:
        dtypes = dtypes * len(leaves)
    kinds = [d.dtype if isinstance(d, TensorSpec) else d for d in dtypes]
    return unflatten(structure, [convert(x, k) for x, k in zip(leaves, kinds, strict=True)])


@fresh
@_may_end_gradients
def scan(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """All values of `a = fn(a, x)` along axis 0, stacked; it begins with the first element.

    >>> tf.scan(lambda a, x: a + x, tf.constant([1.0, 2.0, 3.0])).numpy().tolist()
    [1.0, 3.0, 6.0]
    """
    tensors, structure, count = _elements("scan", elems)
    if initializer is None:
        first = unflatten(structure, [t[count - 1 if reverse else 0] for t in tensors])
        rest = [t[: count - 1] if reverse else t[1:] for t in tensors]
    else:
        first, rest = map_leaves(convert, initializer), tensors
    rows = _running(fn, first, rest, structure, reverse)
    if initializer is not None:
        return rows
    if rows is None:
        return map_leaves(lambda x: x[None], first)
    from gradtape.ops.arrays.joining import concat

    def joined(head: Any, tail: Any) -> Any:
        return concat([tail, head[None]] if reverse else [head[None], tail], axis=0)

    return map_leaves(joined, first, rows)


def _running(fn: Any, first: Any, rest: list[Any], structure: Any, reverse: bool) -> Any:
    """What the function gives step by step, in the order of the elements; None if there is none."""
    count = rest[0].spec.shape[0]
    if not count:
        return None
    loop = _structured("scan")
    if loop is not None:

        def step(carry: Any, parts: Any) -> Any:
            new = map_leaves(convert, fn(adopt(carry), unflatten(structure, adopt(list(parts)))))
            return new, new

        try:
            return loop(step, first, list(rest), reverse=reverse)[1]
        except _REFUSALS:
            if any(map(_has_no_value, rest)):
                raise
    carry, rows = first, []
    for k in range(count - 1, -1, -1) if reverse else range(count):
        carry = map_leaves(convert, fn(carry, unflatten(structure, [t[k] for t in rest])))
        rows.append(carry)
    return _stacked(rows[::-1] if reverse else rows)


@fresh
@_may_end_gradients
def foldl(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """The last value of `a = fn(a, x)` along axis 0.

    >>> tf.foldl(lambda a, x: a - x, tf.constant([1.0, 2.0, 3.0])).numpy().item()
    -4.0
    """
    return _folded(fn, elems, initializer, False)


@fresh
@_may_end_gradients
def foldr(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """The same from the last element to the first.

    >>> tf.foldr(lambda a, x: a - x, tf.constant([1.0, 2.0, 3.0])).numpy().item()
    0.0
    """
    return _folded(fn, elems, initializer, True)


def _folded(fn: Any, elems: Any, initializer: Any, reverse: bool) -> Any:
    tensors, structure, count = _elements("foldl", elems)
    places = list(range(count - 1, -1, -1) if reverse else range(count))
    if initializer is None:
        carry = unflatten(structure, [t[places[0]] for t in tensors])
        places = places[1:]
    else:
        carry = map_leaves(convert, initializer)
    for k in places:
        carry = map_leaves(convert, fn(carry, unflatten(structure, [t[k] for t in tensors])))
    return carry


@fresh
def vectorized_map(
    fn: Callable[[Any], Any],
    elems: Any,
    fallback_to_while_loop: bool = True,
    warn: bool = True,
) -> Any:
    """The function applied to every example along axis 0, as one program and not a loop.

    >>> tf.vectorized_map(lambda x: x * x, tf.constant([1.0, 2.0])).numpy().tolist()
    [1.0, 4.0]
    """
    tensors = map_leaves(convert, elems)

    def on_tensors(example: Any) -> Any:
        return map_leaves(convert, fn(adopt(example)))

    return vectorize.vectorized_map(on_tensors, tensors)
