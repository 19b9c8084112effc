"""function: run a Python function once, and its compiled steps from then on."""

from __future__ import annotations

import contextlib
import enum
import functools
import gc
import inspect
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradtape.arguments import Arguments, Changes, like, rebind
from gradtape.dtypes import default_dtype, float64
from gradtape.graph.deferred import Deferred
from gradtape.graph.program import Program
from gradtape.graph.recording import Handle, Recording, Value, modes, state
from gradtape.ops.callback import journal
from gradtape.pytree import flatten, unflatten
from gradtape.recording.capture import (
    CONTENDED,
    FAILED,
    Call,
    Capture,
    Constant,
    Number,
    Result,
    Step,
    join,
    replay,
)
from gradtape.recording.flush import flush, retire
from gradtape.signature import Signature, Specs, check_signature, is_gone
from gradtape.straight import Wrapped, straight_call
from gradtape.tensor import RowSparse, Tensor, asarray
from gradtape.variable import Variable

__all__ = ["Function", "function"]

_NOTHING = contextlib.nullcontext()

# Past so many paths through one function, it runs in Python.
PATHS = 64
# Past so many captures of one function, the next one is worth a warning.
CAPTURES = 5
# Past so many runs in a row that cannot be repeated, it runs in Python.
UNKEPT = 3
# What a function may return besides tensors and be the same in every call.
PLAIN = (bool, int, float, complex, str, bytes, type, np.generic, np.dtype, enum.Enum, Variable)


@dataclass(eq=False)
class Captured:
    """What is known of one kind of call: its steps, and what they cost and gave."""

    why: str
    root: Step | None = None
    paths: int = 0
    # Runs since the last one that could be repeated.
    unkept: int = 0
    calls: int = 0
    seconds: float = 0.0
    # The whole call, where it is one run and assigns nothing.
    straight: Any = None
    # Why it runs in Python, if it does.
    refused: str | None = None
    lines: list[str] = field(default_factory=list)
    # Variables that it assigns, in the order in which they are locked.
    assigned: tuple[Any, ...] = ()

    # Tensors from outside whose values are part of it, as long as they are there and have them.
    outside: tuple[tuple[weakref.ref[Handle], Value], ...] = ()
    # Whether it assigns something, or has something in it that may fail.
    careful: bool = False

    def is_stale(self) -> bool:
        """Whether a tensor that was read from outside is gone or has another value."""
        return any(
            getattr(handle(), "computed", None) is not value for handle, value in self.outside
        )

    def forget(self) -> None:
        """Begin anew."""
        self.root = self.straight = None
        self.paths, self.assigned, self.outside = 0, (), ()

    @contextlib.contextmanager
    def guarded(self, call: Call) -> Iterator[None]:
        """Reading variables, computing and assigning them is one step to other threads.

        What callbacks give is remembered for a run in Python that may follow.
        """
        with contextlib.ExitStack() as stack:
            for variable in self.assigned:
                stack.enter_context(variable.lock)
            stack.enter_context(journal.use(call.outcomes, None))
            yield


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
        # The same by switches that programs depend on, where these are not the usual ones.
        self.by_switches: dict[Any, dict[Any, Captured]] = {}

    def elsewhere(self) -> dict[Any, Captured]:
        """What was captured under the switches of now, which are not the usual ones."""
        return self.by_switches.setdefault((default_dtype(), modes.deterministic), {})

    def all(self) -> list[Captured]:
        """Everything."""
        tables = (self.by_key, *self.by_switches.values())
        return [one for known in tables for one in known.values()]


class Bound(functools.partial[Any]):
    """A method: its function with the instance as the first argument."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.func, name)

    def program(self, *args: Any, **kwargs: Any) -> Program:
        """The program that computes the results for arguments like these."""
        function: Any = self.func
        return function.program(*self.args, *args, **kwargs)


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
        # A call of these only begins what they do.
        self._runs_later = inspect.isgeneratorfunction(f) or inspect.iscoroutinefunction(f)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else Bound(self, instance)

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
        key, leaves, arguments = self._signature.of(args, kwargs)
        local = self._local
        usual = default_dtype() is float64 and not modes.deterministic
        known = local.by_key if usual else local.elsewhere()
        captured = known.get(key)
        if captured is None:
            if self._runs_later:
                return self.python_function(*args, **kwargs)
            captured = self._begin(known, key)
        captured.calls += 1
        if captured.outside and captured.is_stale():
            # A tensor that it read from outside has been replaced there.
            captured.forget()
            self._count_unkept(captured, "it reads tensors from outside that change")
        if captured.straight is not None:
            return captured.straight(leaves)
        if captured.refused is not None:
            return self.python_function(*args, **kwargs)
        call = Call(leaves)
        if captured.root is not None:
            # An error happens again in Python, at its line, where somebody may expect it.
            careful = captured.guarded(call) if captured.careful else _NOTHING
            with contextlib.suppress(Exception), careful:
                result = replay(captured.root, call)
                if result is not None:
                    return _returned(result, call, args, arguments)
        return self._capture(captured, call, args, kwargs, arguments)

    # Capturing.

    def _begin(self, known: dict[Any, Captured], key: Any) -> Captured:
        """Another kind of call; those with objects that are no more are forgotten."""
        for gone in [each for each in known if is_gone(each)]:
            del known[gone]
        captured = known[key] = Captured(self._signature.difference(key))
        self._warn_of_many(known)
        return captured

    def _capture(
        self,
        captured: Captured,
        call: Call,
        args: Any,
        kwargs: Any,
        arguments: Arguments | None,
    ) -> Any:
        start = time.perf_counter()
        outer = state.recording
        capture = Capture(call.draws)
        given = _Given(capture, call.arguments, (args, kwargs), arguments)
        state.recording = capture
        try:
            with journal.use(None, call.outcomes):
                # In a list, so that it can be let go of.
                found = [self.python_function(*given.args, **given.kwargs)]
                return self._finish(captured, capture, given, found)
        finally:
            capture.tapes.pop(id(capture), None)
            capture.active = 0
            try:
                if not capture.closed and not capture.tapes:
                    # Only after an error: what else was pending is computed, if it can be.
                    if given.is_unknown:
                        given.rebound()
                    with contextlib.suppress(Exception):
                        flush(capture)
                    given.carry_out()
            finally:
                capture.give_back()
                state.recording = Recording() if outer.closed else outer
            captured.seconds += time.perf_counter() - start

    def _finish(self, captured: Captured, capture: Capture, given: _Given, found: list[Any]) -> Any:
        """Compute what is returned and assigned, and note where later calls find it."""
        leaves, structure = flatten(found.pop())
        nodes = [leaf.node if _is_inside(leaf, capture) else None for leaf in leaves]
        capture.tapes.pop(id(capture), None)
        capture.active = 0
        outlived = bool(capture.tapes)
        sources = [
            _leaf_source(capture, leaf, node) for leaf, node in zip(leaves, nodes, strict=True)
        ]
        updates = [
            (variable, capture.source(handle.node))
            for variable, handle in capture.assigned.items()
            if not capture.is_made_here(variable, variable.number)
        ]
        assigned = [(variable._handle, handle) for variable, handle in capture.assigned.items()]
        if any(now is not handle for now, handle in assigned):
            capture.unkept = CONTENDED
        rebound = given.rebound()
        flush(capture)
        result = Result(structure, tuple(sources), tuple(updates), tuple(rebound))
        capture.step.result = result
        changed = given.carry_out()
        if not capture.closed and not capture.tapes:
            retire(capture)
        strange = next((leaf for leaf in leaves if not given.is_plain(leaf)), None)
        returned = _Returned(leaves, nodes)
        if outlived:
            captured.refused = "a tape made inside it is still used"
        elif strange is not None:
            self._refuse(captured, f"it returns {_one(strange)}, which may hold tensors")
        elif self._is_unkept(captured, capture, [*leaves, *given.inputs]):
            pass
        elif capture.escaped is not None:
            self._refuse(captured, f"a value leaves for Python at {capture.escaped}")
        elif changed:
            self._refuse(captured, "it changes a list, dict or dataclass that it is given")
        else:
            self._keep(captured, capture, result)
        return unflatten(structure, returned.own(leaves))

    def _keep(self, captured: Captured, capture: Capture, result: Result) -> None:
        """Add the path of a run to those that later calls may take."""
        if captured.root is None or not join(captured.root, capture.path):
            # The first one, or what it does changed between two runs on the same values.
            captured.forget()
            captured.root = capture.path
        captured.outside += tuple(capture.outside())
        captured.paths += 1
        captured.unkept = 0
        assigned = {*captured.assigned, *[variable for variable, _ in result.updates]}
        captured.assigned = tuple(sorted(assigned, key=lambda variable: variable.number))
        captured.careful = bool(assigned) or _is_fallible(captured.root)
        captured.lines = _guards(captured.root)
        captured.straight = straight_call(captured.root, captured.assigned)
        if captured.paths > PATHS:
            self._refuse(captured, f"it takes more than {PATHS} paths, by values it looks at")

    def _is_unkept(self, captured: Captured, capture: Capture, known: list[Any]) -> bool:
        """Whether this run is unlike those to come."""
        why = capture.unkept
        if why is None:
            known += [part for leaf in known if isinstance(leaf, RowSparse) for part in leaf.rows]
            known += capture.assigned.values()
            capture.forget_variables()
            why = _left_behind(capture, known)
            if why is not None:
                # Functions that call themselves hold on to what they know a little longer.
                gc.collect()
                why = _left_behind(capture, known)
        if why is None:
            return False
        if why not in (FAILED, CONTENDED):
            self._count_unkept(captured, why)
        return True

    def _count_unkept(self, captured: Captured, why: str) -> None:
        captured.unkept += 1
        if captured.unkept >= UNKEPT:
            self._refuse(captured, why)

    def _refuse(self, captured: Captured, why: str) -> None:
        captured.refused = why
        captured.root = captured.straight = None
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
        return len(self._local.all())

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
        known = self._local.all()
        count = len(known)
        lines = [f"{self.__name__}: {count} {'kind' if count == 1 else 'kinds'} of calls"]
        for number, each in enumerate(known, start=1):
            lines.append(
                f"{number}. {each.why}: {each.calls} calls, {each.paths} "
                f"{'path' if each.paths == 1 else 'paths'}, {each.seconds * 1e3:.1f} ms to capture"
            )
            if each.refused is not None:
                lines.append(f"   runs in Python: {each.refused}")
            lines += [f"   looks at a value at {line}" for line in each.lines]
        lines.append("Effects other than on variables and generators happen while capturing only.")
        return "\n".join(lines)


def _left_behind(capture: Capture, known: list[Any]) -> str | None:
    """What a run that is over has left outside, so that its repetition would have to, as well."""
    if any(reference() is not None for reference in capture.made.values()):
        return "it makes variables or generators that outlive the call"
    return "a tensor that it computes is kept outside" if capture.leaked(known) else None


class _Returned:
    """The tensors that a run returns, as fresh ones in the list: who holds the first ones shows."""

    def __init__(self, leaves: list[Any], nodes: list[Any]) -> None:
        self._fresh: dict[int, tuple[Any, weakref.ref[Any]]] = {}
        for place, (leaf, node) in enumerate(zip(leaves, nodes, strict=True)):
            if type(leaf) is Deferred:
                leaves[place] = leaf.value
            elif node is not None and leaf.node is None:
                made = type(leaf)(None, None, leaf.computed)
                fresh, _ = self._fresh.setdefault(id(leaf), (made, weakref.ref(leaf)))
                leaves[place] = fresh

    def own(self, leaves: list[Any]) -> list[Any]:
        """The leaves to return: those that are known outside, or fresh ones."""
        known = {id(fresh): first() for fresh, first in self._fresh.values()}
        return [known.get(id(leaf)) or leaf for leaf in leaves]


class _Given:
    """What a captured run is given for the arguments of the call."""

    def __init__(
        self, capture: Capture, leaves: Sequence[Any], theirs: Any, arguments: Arguments | None
    ) -> None:
        self._capture = capture
        self._originals = theirs[0] if arguments is None else arguments.inputs
        self._nodes: list[Any] = []
        self.inputs: list[Any] = []
        for position, (leaf, original) in enumerate(zip(leaves, self._originals, strict=True)):
            if type(leaf) is Value:
                node = capture.argument(position, leaf)
                self.inputs.append(like(Tensor(node, capture, leaf), original))
            else:
                node = None
                self.inputs.append(_deferred(position, leaf, capture))
            self._nodes.append(node)
        self._rebound: list[int] | None = None
        self._static: list[Any] = []
        self._changes: Changes | None = None
        if arguments is None:
            self.args, self.kwargs = tuple(self.inputs), dict[str, Any]()
        else:
            self.args, self.kwargs = arguments.filled(self.inputs)
            pairs = list(zip(self._originals, self.inputs, strict=True))
            self._changes = Changes(theirs, (self.args, self.kwargs), pairs)
            self._static = flatten(theirs)[0]

    @property
    def is_unknown(self) -> bool:
        return self._rebound is None

    def rebound(self) -> list[tuple[int, Any]]:
        """The inputs that were changed in place, and where later calls find what they became."""
        found = []
        for position, (tensor, node) in enumerate(zip(self.inputs, self._nodes, strict=True)):
            if node is not None and tensor.node is not node:
                inside = tensor.recording is self._capture
                source = self._capture.source(tensor.node) if inside else Constant(tensor.computed)
                found.append((position, source))
        self._rebound = [position for position, _ in found]
        return found

    def carry_out(self) -> bool:
        """Do to the caller's own what was done to them; whether containers were changed."""
        for position in self._rebound or ():
            if self.inputs[position].computed is not None:
                rebind(self._originals[position], self.inputs[position].computed)
        return self._changes is not None and self._changes.carry_out()

    def is_plain(self, leaf: Any) -> bool:
        """Whether a leaf of the result is a tensor, or something that every call may return."""
        if isinstance(leaf, (Tensor, Deferred, *PLAIN)):
            return True
        return any(leaf is known for known in self._static)


def _plain(nest: Any) -> Any:
    leaves, structure = flatten(nest)
    return unflatten(
        structure, [asarray(x) if isinstance(x, (np.ndarray, float)) else x for x in leaves]
    )


def _one(thing: Any) -> str:
    return f"an object of class {type(thing).__name__}"


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


def _returned(result: Result, call: Call, args: Any, arguments: Arguments | None) -> Any:
    found = [source(call) for source in result.leaves]
    values = [(variable, source(call)) for variable, source in result.updates]
    inputs = [(position, source(call)) for position, source in result.rebound]
    for variable, value in values:
        variable.replace(Value(value.content, value.spec))
    if inputs:
        originals = args if arguments is None else arguments.inputs
        for position, value in inputs:
            rebind(originals[position], Value(value.content, value.spec))
    return unflatten(result.structure, found)


def _steps(root: Step) -> Iterator[Step]:
    stack = [root]
    while stack:
        step = stack.pop()
        yield step
        stack += step.branches.values()


def _guards(root: Step) -> list[str]:
    """The lines that look at values."""
    return list(dict.fromkeys(step.line for step in _steps(root) if step.guard is not None))


def _is_fallible(root: Step) -> bool:
    return any(run.fallible for step in _steps(root) for run in step.runs)
