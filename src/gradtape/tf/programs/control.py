"""Control flow: cond, case, while_loop, map_fn, scan and their relatives.

Where values are known, branches are taken and loops run in Python, as TensorFlow does outside a
`tf.function`, and the recording holds the branch that was taken. Where they are not, as inside
`vectorized_map`, gradtape's own control flow is recorded as one op. Loops whose values keep their
shapes use it too, wherever it can be differentiated, because it is compiled as a whole.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeAlias, TypeVar

import gradtape as gt
from gradtape.control import branches, loops, vmap
from gradtape.errors import DtypeError, NoValueError, ShapeError
from gradtape.libraries import check_exports
from gradtape.pytree import Structure, flatten, map_leaves, unflatten
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.dispatch import graphs, operation
from gradtape.tf.base.shapes import TensorSpec
from gradtape.tf.base.tensor import Tensor, adopt
from gradtape.tf.base.types import IntLike, Name, TensorLike, UserFunction
from gradtape.trace.recording import state
from gradtape.trace.trace import Trace
from gradtape.typing import Size

__all__ = [
    "case",
    "cond",
    "foldl",
    "foldr",
    "map_fn",
    "scan",
    "switch_case",
    "vectorized_map",
    "while_loop",
]

P = ParamSpec("P")
R = TypeVar("R")

# A function of no arguments, for a branch.
Branch: TypeAlias = Callable[[], Any]

# Errors of gradtape's loops for bodies that only a loop in Python can run: those that change shapes
# or read values.
_REFUSALS = (ShapeError, DtypeError, NoValueError, ValueError, TypeError)


def _has_no_value(tensor: Tensor) -> bool:
    recording = state.recording
    return isinstance(recording, Trace) and recording.lacks_value(tensor.enter(recording))


def _as_op_or_in_python(
    operands: Sequence[Tensor], as_op: Callable[[], R], in_python: Callable[[], R]
) -> R:
    """A loop as one op, or else, if that is refused and the operands have values, in Python."""
    try:
        return as_op()
    except _REFUSALS:
        if any(map(_has_no_value, operands)):
            raise
    return in_python()


def _may_end_gradients(loop: Callable[P, R]) -> Callable[P, R]:
    """Let `back_prop=False` end gradients inside a tf.function; outside, TensorFlow ignores it."""
    signature = inspect.signature(loop)

    @functools.wraps(loop)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        result = loop(*args, **kwargs)
        if not state.recording.capturing:
            return result
        if signature.bind(*args, **kwargs).arguments.get("back_prop", True):
            return result
        return map_leaves(gt.stop_gradient, result)

    return inside


@operation
def cond(
    pred: TensorLike,
    true_fn: Branch | None = None,
    false_fn: Branch | None = None,
    name: Name = None,
) -> Any:
    """`true_fn()` if `pred` holds, else `false_fn()`.

    >>> x = tf.constant(3.0)
    >>> tf.cond(x > 1.0, lambda: x * x, lambda: x).numpy().item()
    9.0
    """
    if not callable(true_fn) or not callable(false_fn):
        raise TypeError(f"cond: {'false' if callable(true_fn) else 'true'}_fn must be callable.")
    if not isinstance(pred, bool):
        pred = convert(pred)
        if pred.spec.shape:
            raise ShapeError(f"cond: a predicate of shape {pred.shape} is not one truth value.")
        if _has_no_value(pred):
            return branches.cond(pred, _giving_tensors(true_fn), _giving_tensors(false_fn))
    return (true_fn if pred else false_fn)()


def _giving_tensors(function: Branch) -> Branch:
    return lambda: map_leaves(convert, function())


@operation
def case(
    pred_fn_pairs: Mapping[Any, Branch] | Sequence[tuple[TensorLike, Branch]],
    default: Branch | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """The result of the function whose predicate is the first to hold, else of the default.

    >>> x = tf.constant(5.0)
    >>> tf.case(
    ...     [(x < 1.0, lambda: -x), (x < 10.0, lambda: x)], default=lambda: 0 * x
    ... ).numpy().item()
    5.0
    """
    pairs = list(pred_fn_pairs.items() if isinstance(pred_fn_pairs, Mapping) else pred_fn_pairs)
    if not pairs and default is None:
        raise ValueError("case: there are no branches. Pass pairs of a predicate and a function.")
    if exclusive and sum(bool(pred) for pred, _ in pairs) > 1:
        raise ValueError("case: several predicates hold, and exclusive=True.")
    return _first_that_holds(pairs, default)


def _first_that_holds(pairs: Sequence[tuple[Any, Branch]], default: Branch | None) -> Any:
    if not pairs:
        if default is None:
            raise ValueError("case: none of the predicates holds, and there is no default.")
        return default()
    (pred, function), *rest = pairs
    return cond(pred, function, lambda: _first_that_holds(rest, default))


@operation
def switch_case(
    branch_index: TensorLike,
    branch_fns: Mapping[int, Branch] | Sequence[Any],
    default: Branch | None = None,
    name: str = "switch_case",
) -> Any:
    """The result of the function with a number, else of the default, or of the last function.

    >>> tf.switch_case(tf.constant(1), [lambda: 10, lambda: 20])
    20
    """
    items = list(branch_fns.items() if isinstance(branch_fns, Mapping) else branch_fns)
    if items and isinstance(items[0], tuple):
        functions = {int(number): function for number, function in items}
    else:
        functions = dict(enumerate(items))
    last = default or functions[max(functions)]
    index = convert(branch_index)
    if _has_no_value(index):
        pairs = [(index == number, function) for number, function in functions.items()]
        return _first_that_holds(pairs, last)
    return functions.get(int(index), last)()


@operation
@_may_end_gradients
def while_loop(
    cond: UserFunction,
    body: UserFunction,
    loop_vars: object,
    shape_invariants: object = None,
    parallel_iterations: Size = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: IntLike | None = None,
    name: Name = None,
) -> Any:
    """`body(*loop_vars)` again and again, as long as `cond(*loop_vars)` holds.

    >>> i, x = tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2.0), (0, 1.0))
    >>> i.numpy().item(), x.numpy().item()
    (3, 8.0)
    """
    start = map_leaves(convert, loop_vars if isinstance(loop_vars, (list, tuple)) else [loop_vars])
    limit = None if maximum_iterations is None else int(maximum_iterations)

    def holds(values: Any) -> Tensor:
        return convert(cond(*values))

    def step(values: Any) -> Any:
        return map_leaves(convert, _as_loop_vars(body(*values), start))

    def as_op() -> Any:
        return loops.while_loop(lambda v: holds(adopt(v)), lambda v: step(adopt(v)), start, limit)

    def in_python() -> Any:
        steps, values = 0, start
        while (limit is None or steps < limit) and bool(holds(values)):
            values, steps = step(values), steps + 1
        return values

    leaves = flatten(start)[0]
    unknown = any(map(_has_no_value, leaves))
    if shape_invariants is None and (unknown or limit is not None or _is_watched()):
        return _as_op_or_in_python(leaves, as_op, in_python)
    return in_python()


def _is_watched() -> bool:
    """Whether a tape of the user's shows which derivatives may be needed.

    Without one, `tf.gradients` may compute any of them later. A loop that is one op has no
    fixed number of steps to go back through, so it then runs step by step.
    """
    return bool(state.tapes) and not graphs.is_running()


def _as_loop_vars(result: Any, start: Any) -> Any:
    """The result of a loop's body, in the structure of the loop variables."""
    values = result if isinstance(result, (list, tuple)) else [result]
    if len(values) != len(start):
        raise ValueError(
            f"while_loop: body returned {len(values)} values for {len(start)} loop variables."
        )
    return type(start)(*values) if hasattr(start, "_fields") else type(start)(values)


class _Elements:
    """Sequences of one length along axis 0, as tensors in a nest."""

    def __init__(self, name: str, elems: object) -> None:
        leaves, self.structure = flatten(elems)
        self.tensors = [convert(leaf) for leaf in leaves]
        if not self.tensors:
            raise ValueError(f"{name}: there are no elements.")
        if not all(tensor.ndim for tensor in self.tensors):
            raise ShapeError(f"{name}: elements need an axis to loop along; one has shape ().")
        lengths = {tensor.spec.shape[0] for tensor in self.tensors}
        if len(lengths) > 1:
            raise ShapeError(f"{name}: elements differ in length: {sorted(lengths)}.")
        self.count = lengths.pop()

    def at(self, number: int) -> Any:
        """One element, as a nest."""
        return unflatten(self.structure, [tensor[number] for tensor in self.tensors])


def _stacked(rows: list[Any]) -> Any:
    structure = flatten(rows[0])[1]
    columns = zip(*(flatten(row)[0] for row in rows), strict=True)
    return unflatten(structure, [gt.stack(list(column)) for column in columns])


@operation
@_may_end_gradients
def map_fn(
    fn: UserFunction,
    elems: object,
    dtype: object = None,
    parallel_iterations: Size | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: Name = None,
    fn_output_signature: object = None,
) -> Any:
    """The function applied to each element along axis 0 in turn, with results stacked.

    >>> tf.map_fn(lambda x: x * x, tf.constant([1.0, 2.0])).numpy().tolist()
    [1.0, 4.0]
    """
    elements = _Elements("map_fn", elems)
    tensors = elements.tensors
    declared = dtype if fn_output_signature is None else fn_output_signature

    def call(parts: Sequence[Any]) -> Any:
        return _declared(fn(unflatten(elements.structure, parts)), declared)

    if not elements.count:
        # The results of zeros, which are never computed, show shapes and dtypes.
        rows = call([adopt(gt.zeros(t.spec.shape[1:], dtype=t.spec.dtype)) for t in tensors])
        return map_leaves(lambda y: gt.zeros((0, *y.spec.shape), dtype=y.spec.dtype), rows)
    return _as_op_or_in_python(
        tensors,
        lambda: gt.map(lambda parts: call(adopt(list(parts))), list(tensors)),
        lambda: _stacked([call([t[k] for t in tensors]) for k in range(elements.count)]),
    )


def _declared(result: object, declared: object) -> Any:
    """Results as tensors of the declared dtypes."""
    if declared is None:
        return map_leaves(convert, result)
    dtypes = flatten(declared)[0]
    leaves, structure = flatten(result)
    if len(dtypes) == 1:
        dtypes = dtypes * len(leaves)
    kinds = [d.dtype if isinstance(d, TensorSpec) else d for d in dtypes]
    return unflatten(structure, [convert(x, k) for x, k in zip(leaves, kinds, strict=True)])


@operation
@_may_end_gradients
def scan(
    fn: UserFunction,
    elems: object,
    initializer: object = None,
    parallel_iterations: Size = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: Name = None,
) -> Any:
    """All values of `a = fn(a, x)` along axis 0, stacked; it begins with the first element.

    >>> tf.scan(lambda a, x: a + x, tf.constant([1.0, 2.0, 3.0])).numpy().tolist()
    [1.0, 3.0, 6.0]
    """
    elements = _Elements("scan", elems)
    tensors, count = elements.tensors, elements.count
    if initializer is not None:
        first = map_leaves(convert, initializer)
        return _scanned(fn, first, tensors, elements.structure, reverse)
    first = elements.at(count - 1 if reverse else 0)
    rest = [t[: count - 1] if reverse else t[1:] for t in tensors]
    rows = _scanned(fn, first, rest, elements.structure, reverse)
    if rows is None:
        return map_leaves(lambda x: x[None], first)

    def joined(head: Tensor, tail: Tensor) -> Tensor:
        return gt.concat([tail, head[None]] if reverse else [head[None], tail], axis=0)

    return map_leaves(joined, first, rows)


def _scanned(
    fn: UserFunction, first: Any, rest: list[Tensor], structure: Structure, reverse: bool
) -> Any:
    """The values after each step, stacked in the order of the elements; None without elements."""
    count = rest[0].spec.shape[0]
    if not count:
        return None

    def step(carry: Any, parts: Sequence[Any]) -> Any:
        return map_leaves(convert, fn(carry, unflatten(structure, parts)))

    def as_op() -> Any:
        def both(carry: Any, parts: Sequence[Any]) -> Any:
            new = step(adopt(carry), adopt(list(parts)))
            return new, new

        return gt.scan(both, first, list(rest), reverse=reverse)[1]

    def in_python() -> Any:
        carry, rows = first, []
        for k in range(count - 1, -1, -1) if reverse else range(count):
            carry = step(carry, [t[k] for t in rest])
            rows.append(carry)
        return _stacked(rows[::-1] if reverse else rows)

    return _as_op_or_in_python(rest, as_op, in_python)


@operation
@_may_end_gradients
def foldl(
    fn: UserFunction,
    elems: object,
    initializer: object = None,
    parallel_iterations: Size = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: Name = None,
) -> Any:
    """The last value of `a = fn(a, x)` along axis 0.

    >>> tf.foldl(lambda a, x: a - x, tf.constant([1.0, 2.0, 3.0])).numpy().item()
    -4.0
    """
    return _folded("foldl", fn, elems, initializer, False)


@operation
@_may_end_gradients
def foldr(
    fn: UserFunction,
    elems: object,
    initializer: object = None,
    parallel_iterations: Size = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: Name = None,
) -> Any:
    """The last value of `a = fn(a, x)` along axis 0, from the last element to the first.

    >>> tf.foldr(lambda a, x: a - x, tf.constant([1.0, 2.0, 3.0])).numpy().item()
    0.0
    """
    return _folded("foldr", fn, elems, initializer, True)


def _folded(name: str, fn: UserFunction, elems: object, initializer: object, reverse: bool) -> Any:
    elements = _Elements(name, elems)
    order = list(range(elements.count))[:: -1 if reverse else 1]
    if initializer is None:
        carry, order = elements.at(order[0]), order[1:]
    else:
        carry = map_leaves(convert, initializer)
    for k in order:
        carry = map_leaves(convert, fn(carry, elements.at(k)))
    return carry


@operation
def vectorized_map(
    fn: UserFunction, elems: object, fallback_to_while_loop: bool = True, warn: bool = True
) -> Any:
    """The function applied to every example along axis 0, as one program and not as a loop.

    A function that needs the values of its example, as `tf.slice` from a mapped position does, is
    called once for each, unless `fallback_to_while_loop` is false.

    >>> tf.vectorized_map(lambda x: x * x, tf.constant([1.0, 2.0])).numpy().tolist()
    [1.0, 4.0]
    """

    def on_tensors(example: Any) -> Any:
        return map_leaves(convert, fn(adopt(example)))

    elements = map_leaves(convert, elems)
    tensors, structure = flatten(elements)
    try:
        return vmap.vectorized_map(on_tensors, elements)
    except NoValueError:
        if not fallback_to_while_loop or any(map(_has_no_value, tensors)):
            raise
    # The function reads the values of its example, so it is called for each.
    count = max(t.spec.shape[0] for t in tensors)
    parts = ([t[k if t.spec.shape[0] > 1 else 0] for t in tensors] for k in range(count))
    return _stacked([on_tensors(unflatten(structure, part)) for part in parts])


check_exports(globals(), __all__)
