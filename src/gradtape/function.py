"""function: run a Python function once, and its compiled steps from then on."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradtape.graph.deferred import Deferred
from gradtape.graph.program import Program
from gradtape.graph.recording import Recording, Value, modes, state
from gradtape.pytree import flatten, unflatten
from gradtape.recording.capture import Call, Capture, Constant, Number, Result, Step, replay
from gradtape.recording.flush import flush, retire
from gradtape.signature import Signature, Specs, check_signature
from gradtape.straight import Wrapped, straight_call
from gradtape.tensor import RowSparse, Tensor, asarray

__all__ = ["Function", "function"]

# Past so many paths through one function, it runs in Python.
PATHS = 64
# Past so many captures of one function, the next one is worth a warning.
CAPTURES = 5


@dataclass(eq=False)
class Captured:
    """What is known of one kind of call: its steps, and what they cost and gave."""

    why: str
    root: Step = field(default_factory=Step)
    paths: int = 0
    calls: int = 0
    seconds: float = 0.0
    # The whole call, where it is one run and assigns nothing.
    straight: Any = None
    # Why it runs in Python, if it does.
    refused: str | None = None
    lines: list[str] = field(default_factory=list)
    # Variables that it assigns, in the order in which they are locked.
    assigned: tuple[Any, ...] = ()


def function(
    f: Callable[..., Any] | None = None,
    *,
    static_argnames: Sequence[str] | str = (),
    input_signature: Sequence[Any] | None = None,
    reduce_retracing: bool = False,
    fastmath: bool = False,
    autograph: Any = None,
    jit_compile: Any = None,
) -> Any:
    """Run `f` without the Python between its ops, from the second call of a kind on.

    >>> @gt.function
    ... def step(x, rate):
    ...     return x - rate * gt.sin(x)
    >>> float(step(gt.asarray(2.0), 0.0)), float(step(gt.asarray(1.0), 0.0))
    (2.0, 1.0)

    The first call with arguments of one kind (shapes, dtypes, nests, static values) runs the
    function as it is and keeps what it computed as a compiled program. Results equal those of the
    undecorated function, for functions of their arguments, of Variables and of random generators:

    - Floats are inputs. Ints are static until a few values have been seen, then inputs, too.
      Booleans, strings and None, and all that `static_argnames` names, are static.
    - `if`, `while`, `range(int(t))` on values work: what Python saw becomes a guard, and a value
      that was not seen before runs the function once more.
    - Variables may be read and assigned; random generators move on.
    - Values that leave as floats or arrays (`float(t)`, `t.numpy()`) cannot be followed: then the
      function runs in Python, and one warning names the line.
    - Other effects, such as `print`, happen only while the function is run in Python.

    Under a tape the function runs undecorated, so that the tape can record it. `explain()` tells
    what was captured and why. `autograph` and `jit_compile` are accepted for TensorFlow's sake.
    """
    if f is None:
        return functools.partial(
            function,
            static_argnames=static_argnames,
            input_signature=input_signature,
            reduce_retracing=reduce_retracing,
            fastmath=fastmath,
        )
    if isinstance(static_argnames, str):
        static_argnames = (static_argnames,)
    return Function(f, tuple(static_argnames), input_signature, reduce_retracing, fastmath)


class _Captures(threading.local):
    """What each thread captured: the nodes of a graph belong to the thread that made them."""

    def __init__(self) -> None:
        self.by_key: dict[Any, Captured] = {}


class Function:
    """A function with its captured programs; made by `gt.function`.

    >>> f = gt.function(lambda x: x * x)
    >>> float(f(gt.asarray(3.0)))
    9.0
    """

    def __init__(
        self,
        f: Callable[..., Any],
        static_argnames: tuple[str, ...] = (),
        input_signature: Specs = None,
        reduce_retracing: bool = False,
        fastmath: bool = False,
    ) -> None:
        self.__name__ = getattr(f, "__name__", type(f).__name__)
        functools.update_wrapper(self, f)
        self.python_function = f
        self.input_signature = input_signature
        self.fastmath = bool(fastmath)
        self._signature = Signature(f, static_argnames, reduce_retracing)
        self._local = _Captures()
        self._warned = False

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; see `gt.function`."""
        recording = state.recording
        if (
            state.tapes
            or recording.active
            or type(recording) is not Recording
            or modes.handle_list is not list
        ):
            # A tape wants to see the ops, and so does whoever traces, captures or debugs.
            return self.python_function(*args, **kwargs)
        if self.input_signature is not None:
            args = check_signature(self.__name__, self.input_signature, args)
        key, leaves, rebuild = self._signature.of(args, kwargs)
        known = self._local.by_key
        captured = known.get(key)
        if captured is None:
            captured = known[key] = Captured(self._signature.difference(key))
            self._warn_of_many(known)
        captured.calls += 1
        if captured.straight is not None:
            return captured.straight(leaves)
        if captured.refused is not None:
            return self.python_function(*args, **kwargs)
        call = Call(leaves)
        if captured.assigned:
            return self._locked(captured, rebuild, call)
        if captured.paths:
            result = replay(captured.root, call)
            if result is not None:
                return _returned(result, call)
        return self._capture(captured, rebuild, leaves, call.draws)

    def _locked(self, captured: Captured, rebuild: Any, call: Call) -> Any:
        """Reading variables, computing and assigning them is one step to other threads."""
        with contextlib.ExitStack() as locks:
            for variable in captured.assigned:
                locks.enter_context(variable.lock)
            result = replay(captured.root, call) if captured.paths else None
            if result is not None:
                return _returned(result, call)
            return self._capture(captured, rebuild, list(call.arguments), call.draws)

    # Capturing.

    def _capture(
        self, captured: Captured, rebuild: Any, leaves: list[Any], draws: list[Any]
    ) -> Any:
        start = time.perf_counter()
        outer = state.recording
        capture = Capture(captured.root, [draw for draw in draws if draw is not None])
        given = [
            Tensor(capture.argument(position, leaf), capture, leaf)
            if type(leaf) is Value
            else _deferred(position, leaf, capture)
            for position, leaf in enumerate(leaves)
        ]
        args, kwargs = rebuild(given)
        state.recording = capture
        try:
            found = self.python_function(*args, **kwargs)
            del args, kwargs, given
            return self._finish(captured, capture, found)
        finally:
            capture.tapes.pop(id(capture), None)
            capture.active = 0
            try:
                if not capture.closed and not capture.tapes:
                    # Only after an error: what else was pending is computed, if it can be.
                    with contextlib.suppress(Exception):
                        flush(capture)
            finally:
                state.recording = Recording() if outer.closed else outer
            captured.seconds += time.perf_counter() - start

    def _finish(self, captured: Captured, capture: Capture, found: Any) -> Any:
        """Compute what is returned and assigned, and note where later calls find it."""
        leaves, structure = flatten(found)
        updates = [(variable, variable._handle.node) for variable in capture.assigned]
        nodes = [leaf.node if _is_inside(leaf, capture) else None for leaf in leaves]
        capture.tapes.pop(id(capture), None)
        capture.active = 0
        outlived = bool(capture.tapes)
        sources = [
            _leaf_source(capture, leaf, node) for leaf, node in zip(leaves, nodes, strict=True)
        ]
        update_sources = tuple((variable, capture.source(node)) for variable, node in updates)
        flush(capture)
        if outlived:
            captured.refused = "a tape made inside it is still used"
        elif capture.escaped is not None:
            why = f"a value leaves for Python at {capture.escaped}"
            self._refuse(captured, why, silently=capture.meant)
        elif capture.inconsistent:
            # What it does changed between two runs on the same values.
            captured.root, captured.paths = Step(), 0
        else:
            capture.step.result = Result(structure, tuple(sources), update_sources)
            captured.paths += 1
            assigned = {*captured.assigned, *capture.assigned}
            captured.assigned = tuple(sorted(assigned, key=lambda variable: variable.number))
            captured.lines = _guards(captured.root)
            if captured.paths == 1 and capture.step is captured.root:
                straight = straight_call(captured.root)
                captured.straight = _locked(straight, captured.assigned) if straight else None
            if captured.paths > PATHS:
                self._refuse(captured, f"it takes more than {PATHS} paths, by values it looks at")
        if not capture.closed and not capture.tapes:
            retire(capture)
        given = [leaf.value if type(leaf) is Deferred else leaf for leaf in leaves]
        return unflatten(structure, given)

    def _refuse(self, captured: Captured, why: str, silently: bool = False) -> None:
        captured.refused = why
        captured.root = Step()
        if silently:
            return
        warnings.warn(
            f"gt.function: {self.__name__} runs in Python, uncompiled, for arguments of this kind: "
            f"{why}. Keep the value a tensor, or leave the decorator out.",
            stacklevel=4,
        )

    def _warn_of_many(self, known: dict[Any, Captured]) -> None:
        if self._warned or len(known) <= CAPTURES:
            return
        self._warned = True
        spent = sum(each.seconds for each in known.values())
        last = list(known.values())[-1]
        warnings.warn(
            f"gt.function: {self.__name__} has been captured {len(known)} times, for "
            f"{spent * 1e3:.0f} ms in all; the last time because {last.why}. Pass values that "
            "change as floats or tensors of one shape, or name them in static_argnames.",
            stacklevel=3,
        )

    # Inspection.

    @property
    def captures(self) -> int:
        """How many kinds of calls this thread has captured."""
        return len(self._local.by_key)

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> Any:
        """Capture the function for arguments like these, and give the function to call.

        >>> f = gt.function(lambda x: x + 1.0)
        >>> float(f.get_concrete_function(gt.asarray(1.0))(gt.asarray(2.0)))
        3.0
        """
        self(*args, **kwargs)
        return self

    def program(self, *args: Any, **kwargs: Any) -> Program:
        """The program that computes the results for arguments like these.

        >>> print(gt.function(lambda x: gt.sin(x)).program(gt.asarray(1.0)))
        program(a: float64[]) -> b
          b: float64[] = sin(a)
        """
        from gradtape.tensor import program_of

        tensors = [
            leaf
            for leaf in flatten(self.python_function(*_plain(args), **_plain(kwargs)))[0]
            if isinstance(leaf, Tensor)
        ]
        return program_of(*tensors)

    def explain(self) -> str:
        """What was captured, why, and what it cost.

        >>> f = gt.function(lambda x: x * 2.0)
        >>> _ = f(gt.asarray(1.0)), f(gt.asarray([1.0]))
        >>> print(f.explain().splitlines()[0])
        <lambda>: 2 kinds of calls
        """
        known = self._local.by_key
        count = len(known)
        lines = [f"{self.__name__}: {count} {'kind' if count == 1 else 'kinds'} of calls"]
        for number, each in enumerate(known.values(), start=1):
            lines.append(
                f"{number}. {each.why}: {each.calls} calls, {each.paths} "
                f"{'path' if each.paths == 1 else 'paths'}, {each.seconds * 1e3:.1f} ms to capture"
            )
            if each.refused is not None:
                lines.append(f"   runs in Python: {each.refused}")
            lines += [f"   looks at a value at {line}" for line in each.lines]
        lines.append("Effects other than on variables and generators happen while capturing only.")
        return "\n".join(lines)


def _locked(call: Callable[[list[Any]], Any], variables: tuple[Any, ...]) -> Any:
    """The call as one step to other threads that read or assign the same variables."""
    if not variables:
        return call
    locks = [variable.lock for variable in variables]

    def locked(leaves: list[Any]) -> Any:
        for lock in locks:
            lock.acquire()
        try:
            return call(leaves)
        finally:
            for lock in locks:
                lock.release()

    return locked


def _plain(nest: Any) -> Any:
    leaves, structure = flatten(nest)
    return unflatten(
        structure, [asarray(x) if isinstance(x, (np.ndarray, float)) else x for x in leaves]
    )


def _is_inside(leaf: Any, capture: Capture) -> bool:
    return isinstance(leaf, Tensor) and leaf.recording is capture


def _leaf_source(capture: Capture, leaf: Any, node: Any) -> Any:
    """Where a later call finds one leaf of what the function returns."""
    if isinstance(leaf, RowSparse):
        kind, of = type(leaf), leaf.spec
        rows = [
            _leaf_source(capture, part, part.node if _is_inside(part, capture) else None)
            for part in leaf.rows
        ]
        return lambda call: kind(*[source(call) for source in rows], of)
    if node is not None:
        return Wrapped(capture.source(node), type(leaf).result_class)
    return Number(leaf.compute) if type(leaf) is Deferred else Constant(leaf)


def _deferred(position: int, leaf: Any, capture: Capture) -> Any:
    return Deferred(leaf, lambda numbers: numbers[position], capture.guard_number)


def _returned(result: Result, call: Call) -> Any:
    found = [source(call) for source in result.leaves]
    values = [(variable, source(call)) for variable, source in result.updates]
    for variable, value in values:
        variable.replace(Value(value.content, value.spec))
    return unflatten(result.structure, found)


def _guards(step: Step) -> list[str]:
    found: dict[str, None] = {}
    stack = [step]
    while stack:
        each = stack.pop()
        if each.guard is not None:
            found[each.line] = None
        stack += each.branches.values()
    return list(found)
