"""Function: gt.function, and the objects that it makes.

A call of a `Function` finds the signature of its arguments (`signature`), the captures for it
(`captured`), and runs them. It runs undecorated while a tape, a trace or another capture records.
"""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import sys
import threading
from collections.abc import Callable, Sequence
from typing import (
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from gradtape.argument_checks import ask_for_report
from gradtape.compiler.cpython import switch
from gradtape.concurrency import is_interrupt
from gradtape.config import (
    FEW_SIGNATURES,
    MOST_FUNCTION_SIGNATURES,
    MOST_NATIVE_SIGNATURES,
    UNREMARKABLE_SIGNATURES,
)
from gradtape.display import Displayed, Fields, Text
from gradtape.dtypes import World
from gradtape.ir.program import Program, program
from gradtape.jit.capture.capture import Capture
from gradtape.jit.capture.capture_run import Refusal, StandIns, captured_run, is_inside
from gradtape.jit.captured import (
    DEFAULT_CONTRACT,
    Captured,
    Contract,
    Recheck,
    calls_before_native,
    checked_recheck,
)
from gradtape.jit.explain import explained, warn_of_captures
from gradtape.jit.native.native_call import (
    CallContext,
    compile_guards,
    follow_switch,
    is_coming,
    native_call,
    note_calls,
)
from gradtape.jit.signature import (
    CallArguments,
    CallKey,
    CallSignature,
    identities,
    key_difference,
    static_names,
)
from gradtape.pytree import flatten
from gradtape.runtime.plan_cache import note_holder
from gradtape.trace.modes import modes
from gradtape.trace.recording import Recording, state

__all__ = ["Function", "function", "set_recorder"]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


class BoundFunction(Generic[P, R]):
    """A method that was made a function, on its instance.

    >>> class Scale:
    ...     def __init__(self, factor):
    ...         self.factor = gt.Variable(factor)
    ...
    ...     @gt.function
    ...     def apply(self, x):
    ...         return self.factor * x
    >>> double = Scale(2.0)
    >>> float(double.apply(gt.asarray(3.0)))
    6.0
    """

    def __init__(self, function: Function[Any, R], instance: object) -> None:
        self.__func__ = function
        self.__self__ = instance
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the method."""
        return self.__func__(self.__self__, *args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BoundFunction)
            and self.__func__ is other.__func__
            and self.__self__ is other.__self__
        )

    def __hash__(self) -> int:
        return hash((id(self.__func__), id(self.__self__)))

    def __repr__(self) -> str:
        return f"<bound {self.__func__!r} of {type(self.__self__).__name__}>"

    @property
    def python_function(self) -> Callable[P, R]:
        """The undecorated method."""
        return functools.partial(self.__func__.python_function, self.__self__)

    def capture(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Capture the method for arguments like these, and leave all state as it is."""
        self.__func__.capture(self.__self__, *args, **kwargs)

    def program(self, *args: P.args, **kwargs: P.kwargs) -> Program:
        """The program that computes the results for arguments like these."""
        return self.__func__.program(self.__self__, *args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return BoundFunction, (self.__func__, self.__self__)

    def __getattr__(self, name: str) -> Any:
        if name == "__func__":  # not set yet while an instance is copied
            raise AttributeError(name)
        return getattr(self.__func__, name)


class _Options(TypedDict, total=False):
    static_argnames: Sequence[str] | str
    static_argnums: Sequence[int] | int
    dynamic_ints: bool
    fastmath: bool
    frozen: bool
    recheck: Recheck | bool


@overload
def function(f: Callable[P, R], **options: Unpack[_Options]) -> Function[P, R]: ...


@overload
def function(
    f: None = None, **options: Unpack[_Options]
) -> Callable[[Callable[P, R]], Function[P, R]]: ...


def function(
    f: Any = None,
    *,
    static_argnames: Sequence[str] | str = (),
    static_argnums: Sequence[int] | int = (),
    dynamic_ints: bool = False,
    fastmath: bool = False,
    frozen: bool = False,
    recheck: Recheck | bool = "auto",
) -> Any:
    """Run `f` without the Python between its ops, once two runs have recorded the same program.

    >>> @gt.function
    ... def step(x, rate):
    ...     return x - rate * gt.sin(x)
    >>> float(step(gt.asarray(2.0), 0.0)), float(step(gt.asarray(1.0), 0.0))
    (2.0, 1.0)

    The first calls with arguments of one kind (shapes, dtypes, nests, static values, which of them
    are one object) run the function as it is and record its ops. When two runs have recorded the
    same program, later calls replay it, compiled. Two things keep the results right:

    - **Guards by name.** What the code names outside the function is compared at every call:
      globals, closure cells, defaults, attributes, lists, dicts, helpers in your own modules. A
      change runs the function once more. NumPy arrays that the program uses whole are inputs.
    - **Checks by running.** Some calls run in Python again, ever fewer of them until they take 2 %
      of the time. If such a run records another program, its own result is returned, and a warning
      names what differs. So a change without a guard is found at the next check; until then replays
      ignore it. `recheck=n` checks every n-th call, `recheck=1` every call, `recheck=False` none;
      the environment variable GRADTAPE_RECHECK sets it for all functions.

    What this means for a function:

    - Floats are inputs. Ints are static until a few values have been seen, then inputs, too.
      Booleans, strings and None, and all that `static_argnames` names or `static_argnums` counts,
      are static. Numbers are real floats and ints to every library; a number whose value Python or
      C reads is part of the program, which is recorded for each value then.
    - `if`, `while`, `range(int(t))` on values work: a value that Python reads becomes a guard, and
      each path through the function is recorded.
    - Variables may be read and assigned; random generators of `gt.random` move on; tensors may be
      changed in place at every call.
    - Random generators of Python and NumPy, clocks, iterators, files, queues, logging and `print`
      are never replayed: such a function runs in Python in every call, and one warning names the
      line and the remedy. `gt.print` prints in replays. The function is compiled op by op all the
      same.
    - So does a function that changes what it names outside, keeps tensors outside, changes lists
      that it is given, returns objects of other classes, or whose values leave as floats or arrays
      (`float(t)`, `t.numpy()`).

    >>> @gt.function
    ... def root(x):
    ...     guess = x
    ...     while gt.abs(guess * guess - x) > 1e-9:
    ...         guess = 0.5 * (guess + x / guess)
    ...     return guess
    >>> round(float(root(gt.asarray(2.0))), 6)
    1.414214

    Under a tape the function runs undecorated, so that the tape can record it. `explain()` says
    what was captured and why.

    `frozen` is the contract of `tf.function` and `jax.jit`: Python outside is read once for each
    kind of arguments, effects happen only while the function is captured, and nothing is compared.

    >>> factor = 2.0
    >>> f = gt.function(lambda x: x * factor, frozen=True)
    >>> first, factor = float(f(gt.asarray(1.0))), 3.0
    >>> first, float(f(gt.asarray(1.0)))
    (2.0, 2.0)

    With `dynamic_ints` ints are inputs from the first call on, not after a few values.

    `fastmath` lets kernels add in another order, multiply by reciprocals instead of dividing, and
    give 0.0 for -0.0. NaNs and infinities stay what they are. The last bits differ; and where the
    reciprocal or the product of divisors overflows, so does the result. A softmax over rows took
    three quarters of the time, x / (1 + x * x) / (2 + x) in float64 little more than half. Under a
    tape it has no effect.

    >>> unit = gt.function(lambda x: x / gt.sum(x), fastmath=True)
    >>> np.allclose(unit(gt.asarray([1.0, 3.0])).numpy(), [0.25, 0.75])
    True
    """
    options: _Options = {
        "static_argnames": static_argnames,
        "static_argnums": static_argnums,
        "dynamic_ints": dynamic_ints,
        "fastmath": fastmath,
        "frozen": frozen,
        "recheck": recheck,
    }
    if f is None:
        return functools.partial(function, **options)
    if isinstance(f, (staticmethod, classmethod)):
        return type(f)(function(f.__func__, **options))
    if not callable(f):
        raise TypeError(f"function: {f!r} is not callable. Decorate a function or a method.")
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    places = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    names += static_names(f, places)
    contract = Contract(bool(fastmath), bool(frozen), checked_recheck(recheck))
    return Function(f, names, dynamic_ints, contract)


class _ThreadCaptures(threading.local):
    """The captures of each thread: nodes belong to the thread that made them."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin without any captures."""
        self.by_key: dict[CallKey, Captured] = {}
        self.world = World.number[0]
        self._sweep_at = FEW_SIGNATURES

    def make_room(self) -> None:
        """Drop captures for objects that are gone and, of too many, those not called lately.

        Not at every new signature: then each would cost the more the more there are.
        """
        known = self.by_key
        if FEW_SIGNATURES < len(known) < self._sweep_at:
            return
        for gone in [key for key in known if any(each.gone for each in identities(key))]:
            del known[gone]
        if len(known) >= MOST_FUNCTION_SIGNATURES:
            idle = [key for key, each in known.items() if each.calls == each.calls_before]
            for key in [*idle, *known][: len(known) - MOST_FUNCTION_SIGNATURES // 2]:
                known.pop(key, None)
        for each in known.values():
            each.calls_before = each.calls
        self._sweep_at = min(MOST_FUNCTION_SIGNATURES, 2 * len(known))


class Function(Generic[P, R], Displayed):
    """A function with its captured programs; made by `gt.function`.

    >>> f = gt.function(lambda x: x * x)
    >>> float(f(gt.asarray(3.0)))
    9.0
    """

    # Native code finds its contexts in a slot, at a fixed offset.
    __slots__ = {
        "__dict__": None,
        "__weakref__": None,
        "native_contexts": "What native calls read: bytes, one block for each capture.",
    }

    def __init__(
        self,
        f: Callable[P, R],
        static_argnames: tuple[str, ...] = (),
        dynamic_ints: bool = False,
        contract: Contract = DEFAULT_CONTRACT,
    ) -> None:
        self.__name__ = getattr(f, "__name__", type(f).__name__)
        functools.update_wrapper(self, f)
        self.python_function = f
        self.contract = contract
        self.signature = CallSignature(f, static_argnames, dynamic_ints)
        self._options = (static_argnames, dynamic_ints, contract)
        self._local = _ThreadCaptures()
        self._warned = False
        # The addresses of contexts for the native code, and after them the native calls that own
        # the contexts. One tuple: native code must not find an address whose owner is gone.
        self.native_contexts: tuple[Any, ...] = (b"",)
        note_holder(self)
        # A call of a generator or a coroutine only begins its work.
        self._runs_later = inspect.isgeneratorfunction(f) or inspect.iscoroutinefunction(f)

    # Copies and pickles hold the function, and no captures.

    def __deepcopy__(self, memo: dict[int, Any]) -> Function[P, R]:
        return Function(copy.deepcopy(self.python_function, memo), *self._options)

    def __reduce__(self) -> str | tuple[Any, ...]:
        name = getattr(self, "__qualname__", "")
        found: Any = sys.modules.get(getattr(self, "__module__", ""))
        for part in name.split("."):
            found = getattr(found, part, None)
        # A decorated function of a module is found there by its name.
        return name if found is self else (Function, (self.python_function, *self._options))

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Function[P, R]: ...

    @overload
    def __get__(
        self: Function[Concatenate[Any, Q], R], instance: object, owner: type | None = None
    ) -> BoundFunction[Q, R]: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else BoundFunction(self, instance)

    def _repr_html_(self) -> str:
        """The captures, for notebooks; see `explain`."""
        return Text(f"{self!r}\n{self.explain()}")._repr_html_()

    def _fields(self) -> Fields:
        return [
            ("name", getattr(self, "__qualname__", self.__name__)),
            ("kinds of calls", len(self._local.by_key)),
            ("frozen", self.contract.frozen),
            ("fastmath", self.contract.fastmath),
        ]

    def __repr__(self) -> str:
        return f"<gt.function {getattr(self, '__qualname__', self.__name__)}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function; see `gt.function`."""
        if runs_in_python():
            # Tapes, traces, captures and debug modes need the ops.
            return self.python_function(*args, **kwargs)
        return self._run(*args, **kwargs)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        """Replay the call, or capture it."""
        try:
            key, leaves, arguments = self.signature.of(args, kwargs)
        except Exception as error:
            if is_interrupt(error):
                raise
            # An argument refuses to be taken apart: that is no reason to fail.
            return self.python_function(*args, **kwargs)
        local = self._local
        if local.world != World.number[0]:
            local.forget()
        captured = local.by_key.get(key)
        if captured is None:
            captured = self._new_signature(key)
        try:
            differs = captured.differs
            if differs is not None and differs():
                captured = local.by_key[key] = captured.for_outside_values()
            found = captured.run(arguments, leaves)
        except Exception as error:
            ask_for_report(error)
            raise
        if captured.history.calls >= captured.consider_native_at:
            self._consider_native_call(captured, arguments)
        return found

    def _consider_native_call(self, captured: Captured, arguments: CallArguments) -> None:
        """Let calls of this signature go through native code, if they can and it pays."""
        known, calls = captured.native_call, captured.history.calls
        if (
            switch.MODE == "python"
            or captured.contract.recheck == 1
            or (known is not None and known.is_valid)
        ):
            captured.consider_native_at = calls + calls_before_native()
            return
        captured.consider_native_at = 2 * calls
        if self.signature.has_static:
            return
        note_calls(calls_before_native())
        captured.steps.native_call = made = native_call(
            Function, arguments, captured.steps, captured.until_check
        )
        guards = captured.steps.guards
        if made is None and guards is not None:
            compile_guards(guards)
        if made is None and is_coming():
            captured.consider_native_at = calls + calls_before_native()
        if made is not None:
            valid = [each for each in self.native_contexts[1:] if each.is_valid]
            owners: list[CallContext] = [*valid[1 - MOST_NATIVE_SIGNATURES :], made]
            addresses = [each.address.to_bytes(8, "little") for each in owners]
            self.native_contexts = (b"".join(addresses), *owners)

    def _new_signature(self, key: CallKey) -> Captured:
        self._local.make_room()
        known = self._local.by_key
        # Compared with the latest only: with very many shapes each comparison would cost more.
        latest = itertools.islice(reversed(known), UNREMARKABLE_SIGNATURES)
        why = key_difference(key, reversed(list(latest)))
        captured = known[key] = Captured(self.__name__, self.python_function, self.contract, why)
        if self._runs_later:
            why_not = "it is a generator or a coroutine, which runs later"
            captured.refuse(Refusal(why_not, silently=True))
        if any(each.moves_on for each in identities(key)):
            why_not = "it is given an iterator, which every call moves on"
            captured.refuse(Refusal(why_not, "Pass a list or a tensor", silently=self._warned))
            self._warned = True
        if not self._warned and len(known) > UNREMARKABLE_SIGNATURES:
            self._warned = True
            warn_of_captures(self.__name__, list(known.values()))
        return captured

    def forget_plans(self) -> None:
        """Forget what this thread has captured, and all native calls."""
        self._local.forget()
        self.native_contexts = (b"",)

    # Inspection.

    @property
    def captures(self) -> int:
        """The number of signatures that this thread has captured."""
        return len(self.captured)

    @property
    def captured(self) -> list[Captured]:
        """The captures of this thread, in the order of the first calls."""
        return [each for known in self._local.by_key.values() for each in known.siblings]

    def capture(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Capture the function for arguments like these, and leave all state as it is.

        >>> v = gt.Variable(1.0)
        >>> f = gt.function(lambda x: v.assign_add(x).value)
        >>> f.capture(gt.asarray(1.0))
        >>> float(v.value), float(f(gt.asarray(1.0)))
        (1.0, 2.0)
        """
        if runs_in_python():
            return
        key, leaves, arguments = self.signature.of(args, kwargs)
        captured = self._local.by_key.get(key) or self._new_signature(key)
        captured = self._local.by_key[key] = captured.for_outside_values()
        if not captured.steps.paths and captured.refused is None:
            captured.prepare(arguments, leaves)

    def program(self, *args: P.args, **kwargs: P.kwargs) -> Program:
        """The program that computes the results for arguments like these.

        >>> print(gt.function(lambda x: gt.sin(x)).program(gt.asarray(1.0)))
        program(a: float64[]) -> b
          b: float64[] = sin(a)

        It is that of the path which these values take, and computes what variables are assigned,
        too. Nothing is changed by asking.
        """
        _, leaves, arguments = self.signature.of(args, kwargs)
        capture = Capture(self.contract.fastmath)
        try:
            stand_ins = StandIns(capture, arguments, leaves)
            with captured_run(capture, self.python_function, stand_ins) as box:
                nodes = [leaf.node for leaf in flatten(box)[0] if is_inside(leaf, capture)]
                nodes += [node for _, node in capture.variables.last_assigned(capture)]
        finally:
            capture.undo()
        return program(dict.fromkeys(nodes))

    def explain(self) -> str:
        """The captures, with their reasons and costs.

        >>> f = gt.function(lambda x: x * 2.0)
        >>> _ = f(gt.asarray(1.0)), f(gt.asarray([1.0]))
        >>> print(f.explain().splitlines()[0])
        <lambda>: 2 kinds of calls
        """
        return explained(self.__name__, self.captured)


def runs_in_python() -> bool:
    """Whether a tape, a trace, another capture or a debug mode needs every op."""
    recording = state.recording
    return bool(
        state.tapes
        or recording.active
        or type(recording) is not Recording
        or modes.handle_list is not list
    )


def set_recorder(recorder: Literal["auto", "python", "native"]) -> None:
    """Choose whether ops are recorded, and functions called, in Python or in native code.

    >>> gt.set_recorder("python")
    >>> "recorder           Python" in gt.show_config()
    True
    >>> gt.set_recorder("auto")

    With `"python"` neither native recording nor native calls of a `gt.function` happen from now
    on. `"native"` compiles and installs the native recorder now, and raises a RuntimeError where
    it cannot be used. `"auto"` lets the native code in when it is likely to pay. Results are the
    same. The choice holds for all threads; the environment variable `GRADTAPE_RECORDER` makes it
    before the first call.
    """
    switch.set_mode(recorder)
    follow_switch(Function)
