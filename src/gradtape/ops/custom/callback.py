"""Ops that call Python functions at run time, and are opaque to the compiler."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradtape.ir.node import Node, apply
from gradtape.ir.op import Op, Rule, Undefined, declare
from gradtape.ir.operators import OPERATORS
from gradtape.ir.spec import Spec, spec
from gradtape.ops.control.bodies import held
from gradtape.ops.families import batching
from gradtape.ops.families.samples import Sample
from gradtape.ops.families.sparsity import dense
from gradtape.records import dataclass
from gradtape.trace.record import record
from gradtape.trace.recording import Recording, state


def isolated(f: Callable[..., Any]) -> Any:
    """Call Python from inside a plan, in a new recording and without any active tape."""
    recording, tapes = state.recording, state.tapes
    state.recording, state.tapes = Recording(), []
    try:
        return f()
    finally:
        state.recording, state.tapes = recording, tapes


@dataclass(frozen=True)
class Outcome:
    """The result of one call of a callback, or its error."""

    function: Any
    result: Any
    error: Exception | None


class Journal(threading.local):
    """Outcomes of callbacks in a run that may be repeated, so that none is called twice."""

    written: list[Outcome] | None = None
    given: list[Outcome] | None = None

    @contextlib.contextmanager
    def use(self, written: list[Outcome] | None, given: list[Outcome] | None) -> Iterator[None]:
        before = self.written, self.given
        self.written, self.given = written, given
        try:
            yield
        finally:
            self.written, self.given = before


journal = Journal()


def happens(function: Any, f: Callable[..., Any]) -> Any:
    """Call `f` for the callback `function`, unless the journal already has its outcome."""
    written, given = journal.written, journal.given
    if given and given[0].function is function:
        found = given.pop(0)
    else:
        with journal.use(None, None):
            try:
                found = Outcome(function, isolated(f), None)
            except Exception as error:
                found = Outcome(function, None, error)
        if written is not None:
            written.append(found)
    if found.error is not None:
        raise found.error
    return found.result


def is_effect(node: Node) -> bool:
    """Whether a node, or a body it holds, calls Python that may have side effects."""
    if node.op.family == "callback":
        return node.op.opaque
    return any(is_effect(inside) for body in held(node) for inside in body.nodes)


def checked(name: str, results: Any, specs: tuple[Spec, ...]) -> tuple[np.ndarray, ...]:
    """The results of a callback as arrays; raise unless they match the declared specs."""
    listed = tuple(results) if isinstance(results, (tuple, list)) else (results,)
    if len(listed) != len(specs):
        raise ValueError(
            f"{name}: the function returned {len(listed)} values, {len(specs)} were declared."
        )
    arrays = []
    for position, (result, of) in enumerate(zip(listed, specs, strict=True)):
        array = np.asarray(result.numpy() if hasattr(result, "numpy") else result)
        if array.shape != of.shape or not np.can_cast(array.dtype, of.dtype, "same_kind"):
            raise ValueError(
                f"{name}: result {position} is {array.dtype} of shape {array.shape}, but {of} was "
                "declared. Return what was declared, or change the spec."
            )
        arrays.append(np.array(array, of.dtype))
    return tuple(arrays)


def _numpy_kernel(*arrays: np.ndarray, function: Any, specs: tuple[Spec, ...]) -> Any:
    results = happens(function, lambda: function(*map(_copied, arrays)))
    return checked("numpy_function", results, specs)


def _copied(array: np.ndarray) -> np.ndarray:
    return np.array(array)


@dataclass(frozen=True)
class EachExample:
    """A callback on each example in turn; results are stacked, or summed if not `stacked`.

    It works on arrays and on tensors. Two instances for the same function are equal, so that
    programs that hold them are equal, too.
    """

    function: Any
    batched: tuple[bool, ...]
    # The specs of one call's results, and which results differ from example to example.
    specs: tuple[Spec, ...]
    stacked: tuple[bool, ...]

    def __call__(self, *operands: Any) -> Any:
        size = next(len(x) for x, flag in zip(operands, self.batched, strict=True) if flag)
        rows = []
        for number in range(size):
            given = zip(operands, self.batched, strict=True)
            found = self.function(*[x[number] if flag else x for x, flag in given])
            row = tuple(found) if isinstance(found, (tuple, list)) else (found,)
            if len(row) != len(self.specs):
                raise ValueError(
                    f"the function returned {len(row)} values, {len(self.specs)} were declared."
                )
            rows.append(row)
        columns = zip(*rows, strict=True) if rows else [()] * len(self.specs)
        return tuple(
            _combined(list(column), of, stacked)
            for column, of, stacked in zip(columns, self.specs, self.stacked, strict=True)
        )


def _combined(results: list[Any], of: Spec, stacked: bool) -> Any:
    """Combine the results of all examples in one array, or in a tensor if any is a tensor."""
    if not results:
        return np.zeros((0, *of.shape) if stacked else of.shape, of.dtype)
    if not stacked:
        known = [result for result in results if result is not None]
        return sum(known[1:], start=known[0]) if known else None
    for result in results:
        if np.shape(result) != of.shape:
            raise ValueError(
                f"a callback returned shape {np.shape(result)} for one example, but {of} was "
                "declared. Return what was declared, or change the spec."
            )
    if any(hasattr(result, "enter") for result in results):
        return record(OPERATORS.stack, tuple(results), (0,))
    return np.stack([np.asarray(result) for result in results])


def callback_batch(
    inputs: batching.Inputs,
    batched: batching.Flags,
    y: Node,
    function: Any,
    specs: tuple[Spec, ...],
    **others: Any,
) -> Node:
    """Call the function once for each example."""
    each = EachExample(function, batched, specs, (True,) * len(specs))
    return apply(y.op, inputs, (each, _of_all(inputs, batched, specs), *others.values()))


def _of_all(
    inputs: batching.Inputs, batched: batching.Flags, specs: tuple[Spec, ...]
) -> tuple[Spec, ...]:
    size = batching.size_of(inputs, batched)
    return tuple(spec((size, *of.shape), of.dtype) for of in specs)


def callback_op(name: str, *params: str, numpy: Rule, why: str | None = None, **rules: Any) -> Op:
    """Declare an op that calls its param `function`, whose results are as its param `specs` says.

    `params` are further params, and `rules` further fields of Op. It has no derivative if `why`
    says so.
    """
    rules = {"batch": callback_batch} | rules
    if why is not None:
        rules |= {"jvp": Undefined(why), "vjp": Undefined(why)}
    return declare(
        Op(
            name,
            "callback",
            params=("function", "specs", *params),
            spec=lambda *inputs, specs, **_: specs,
            numpy=numpy,
            sparsity=dense,
            expensive=True,
            may_fail=True,
            **rules,
        )
    )


_SAMPLE = {"function": np.sqrt, "specs": (spec((2,), np.dtype("float64")),)}

NUMPY_FUNCTION = callback_op(
    "numpy_function",
    numpy=_numpy_kernel,
    why="numpy_function is a black box. Use py_function with tensor code, or wrap it in "
    "custom_gradient.",
    opaque=True,
    samples=lambda: [Sample((np.array([1.0, 4.0]),), _SAMPLE, 0)],
)


METHODS = ("sequential", "expand_dims", "broadcast_all")


def _pure_kernel(*arrays: np.ndarray, function: Any, specs: tuple[Spec, ...], method: str) -> Any:
    return checked("pure_callback", isolated(lambda: function(*map(_copied, arrays))), specs)


def _pure_batch(
    inputs: batching.Inputs,
    batched: batching.Flags,
    y: Node,
    function: Any,
    specs: tuple[Spec, ...],
    method: str,
) -> Node:
    """Call once for each example, or once for all if the function takes leading batch axes."""
    if method == "sequential":
        return callback_batch(inputs, batched, y, function, specs, method=method)
    if method == "expand_dims":
        given = tuple(
            node if flag else batching.reshaped(node, (1, *node.shape))
            for node, flag in zip(inputs, batched, strict=True)
        )
    else:
        given = batching.spread_all(inputs, batched)
    return apply(y.op, given, (function, _of_all(inputs, batched, specs), method))


# Pure: equal applications are shared, and an application without readers is dropped.
PURE_CALLBACK = callback_op(
    "pure_callback",
    "method",
    numpy=_pure_kernel,
    why="pure_callback is a black box to derivatives. Give it one with custom_jvp or "
    "custom_gradient, or use py_function with tensor code.",
    batch=_pure_batch,
    samples=lambda: [
        Sample((np.array([1.0, 4.0]),), {**_SAMPLE, "method": method}, 0) for method in METHODS
    ],
)
