"""function: run a Python function once, and its compiled steps from then on."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import filterfalse
from typing import Any

from gradtape.codegen.cpython import native_recorder as native
from gradtape.dtypes import World
from gradtape.functions.argument_keys import has_iterator, is_gone
from gradtape.functions.capture import Capture
from gradtape.functions.captured import Captured, captured_run
from gradtape.functions.concrete_function import ConcreteFunction
from gradtape.functions.explain import explained, warn_of_captures
from gradtape.functions.returned_values import is_inside
from gradtape.functions.signature import Arguments, Signature, Specs
from gradtape.functions.stand_ins import Given
from gradtape.functions.steps import Step
from gradtape.functions.tensor_spec import is_spec
from gradtape.graph.program import Program, program
from gradtape.pytree import flatten
from gradtape.recording.modes import modes
from gradtape.recording.recording import Recording
from gradtape.recording.thread_state import state

__all__ = ["Function", "function"]

# Past so many kinds of calls of one function, the next one is worth a warning.
CAPTURES = 5


def function(
    f: Callable[..., Any] | None = None,
    *,
    static_argnames: Sequence[str] | str = (),
    static_argnums: Sequence[int] | int = (),
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
      Booleans, strings and None, and all that `static_argnames` names or `static_argnums` counts,
      are static.
    - `if`, `while`, `range(int(t))` on values work: what Python saw becomes a guard, and a value
      that was not seen before runs the function once more.
    - Variables may be read and assigned; random generators move on.
    - What it reads from outside by name (globals, variables of functions around it, attributes) may
      be changed or replaced now and then; tensors may be changed in place at every call.
    - A function that keeps tensors outside, changes lists that it is given or returns objects of
      other classes runs in Python, and one warning says so.
    - Values that leave as floats or arrays (`float(t)`, `t.numpy()`) cannot be followed: then the
      function runs in Python, and one warning names the line.
    - Other effects, such as `print`, happen only while the function is run in Python.

    >>> @gt.function
    ... def root(x):
    ...     guess = x
    ...     while gt.abs(guess * guess - x) > 1e-9:
    ...         guess = 0.5 * (guess + x / guess)
    ...     return guess
    >>> round(float(root(gt.asarray(2.0))), 6)
    1.414214

    Under a tape the function runs undecorated, so that the tape can record it. `explain()` tells
    what was captured and why.

    `input_signature` is a sequence of `gt.TensorSpec`, one for each argument (nests of them for
    nests): calls that do not agree with it are errors.

    >>> @gt.function(input_signature=[gt.TensorSpec((None, 2), gt.float64)])
    ... def total(rows):
    ...     return gt.sum(rows)
    >>> float(total([[1.0, 2.0], [3.0, 4.0]]))
    10.0

    With `reduce_retracing` ints are inputs from the first call on, not after a few values.

    `fastmath` lets kernels add in another order, multiply by reciprocals instead of dividing, and
    give 0.0 for -0.0. NaNs and infinities stay what they are. The last bits differ; and where the
    reciprocal or the product of divisors overflows, so does the result. A softmax over rows took
    three quarters of the time, x / (1 + x * x) / (2 + x) in float64 little more than half. Under a
    tape it has no effect.

    >>> unit = gt.function(lambda x: x / gt.sum(x), fastmath=True)
    >>> np.allclose(unit(gt.asarray([1.0, 3.0])).numpy(), [0.25, 0.75])
    True

    `autograph` and `jit_compile` are accepted for TensorFlow's sake and change nothing.
    """
    options: dict[str, Any] = {
        "static_argnames": static_argnames,
        "static_argnums": static_argnums,
        "input_signature": input_signature,
        "reduce_retracing": reduce_retracing,
        "fastmath": fastmath,
    }
    if f is None:
        return functools.partial(function, **options)
    if isinstance(f, (staticmethod, classmethod)):
        return type(f)(function(f.__func__, **options))
    if not callable(f):
        raise TypeError(f"function: {f!r} is not callable. Decorate a function or a method.")
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    names += _names_of(f, static_argnums)
    _check_specs(input_signature)
    return Function(f, names, input_signature, reduce_retracing, fastmath)


def _names_of(f: Callable[..., Any], numbers: Sequence[int] | int) -> tuple[str, ...]:
    """The parameters at some places."""
    places = (numbers,) if isinstance(numbers, int) else tuple(numbers)
    if not places:
        return ()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(f, follow_wrapped=False).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind in kinds]
    for place in places:
        if not -len(names) <= place < len(names):
            raise ValueError(
                f"function: static_argnums {place} is not a place among the parameters {names}. "
                "Count them from 0, or name them in static_argnames."
            )
    return tuple(names[place] for place in places)


def _check_specs(given: Any) -> None:
    listed = given is None or isinstance(given, (list, tuple))
    wrong = [] if given is None else list(_no_specs(given)) if listed else [given]
    if wrong:
        raise TypeError(
            f"function: input_signature has {wrong[0]!r}, which is not a spec in a list. "
            "Give a list of gt.TensorSpec(shape, dtype), one for each argument."
        )


def _no_specs(nest: Any) -> Iterator[Any]:
    """What is neither a spec nor a nest of them."""
    if is_spec(nest):
        return
    if isinstance(nest, (list, tuple, dict)):
        for part in nest.values() if isinstance(nest, dict) else nest:
            yield from _no_specs(part)
        return
    leaves, structure = flatten(nest)
    yield from (nest,) if structure.kind is None else filterfalse(is_spec, leaves)


class _Captures(threading.local):
    """What each thread captured: the nodes of a graph belong to the thread that made them."""

    def __init__(self) -> None:
        self.by_key: dict[Any, Captured] = {}
        self.world = World.number[0]


class Function:
    """A function with its captured programs; made by `gt.function`.

    >>> f = gt.function(lambda x: x * x)
    >>> float(f(gt.asarray(3.0)))
    9.0
    """

    __slots__ = ("__dict__", "__weakref__", "direct")

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
        self.signature = Signature(
            f, self.__name__, static_argnames, reduce_retracing, input_signature
        )
        self._options = (static_argnames, input_signature, reduce_retracing, fastmath)
        self._local = _Captures()
        self._warned = False
        # Contexts of kinds of calls that need no Python; their addresses, which native code reads.
        self._directs: list[Any] = []
        self.direct = b""
        # A call of these only begins what they do.
        self._runs_later = inspect.isgeneratorfunction(f) or inspect.iscoroutinefunction(f)

    # Copies and pickles are of the function, not of what was captured.

    def __deepcopy__(self, memo: Any) -> Function:
        return Function(copy.deepcopy(self.python_function, memo), *self._options)

    def __reduce__(self) -> Any:
        name = getattr(self, "__qualname__", "")
        found: Any = sys.modules.get(getattr(self, "__module__", ""))
        for part in name.split("."):
            found = getattr(found, part, None)
        # A decorated function of a module is found there by its name.
        return name if found is self else (Function, (self.python_function, *self._options))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else BoundFunction(self, instance)

    def __repr__(self) -> str:
        return f"<gt.function {getattr(self, '__qualname__', self.__name__)}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; see `gt.function`."""
        if runs_in_python():
            if self.input_signature is not None:
                args, kwargs = self.signature.completed(args, kwargs)
            # A tape wants to see the ops, and so does whoever traces, captures or debugs.
            return self.python_function(*args, **kwargs)
        key, leaves, arguments = self.signature.of(args, kwargs)
        local = self._local
        if local.world != World.number[0]:
            local.by_key, local.world = {}, World.number[0]
        captured = local.by_key.get(key)
        if captured is None:
            captured = self._new_kind(key)
        if captured.differs is not None and captured.differs():
            captured = local.by_key[key] = captured.with_surroundings()
        captured.python_calls += 1
        if captured.straight is not None:
            try:
                found = captured.straight(leaves, arguments.given)
            except Exception as error:
                return captured.run_in_python(arguments, error)
            if captured.python_calls >= captured.look_at:
                self._look(captured, arguments)
            return found
        if captured.refused is not None:
            return self.python_function(*args, **kwargs)
        return captured.run(arguments, leaves)

    def _look(self, captured: Captured, arguments: Arguments) -> None:
        """Let calls of this kind go through native code from now on, if they can and it pays."""
        captured.look_at = 2 * captured.python_calls
        if native.MODE == "python":
            return
        from gradtape.functions import native_call as direct

        if not self.signature.has_static:
            captured.direct = direct.made(Function, arguments, captured)
        if captured.direct is not None:
            known = [each for each in self._directs if each.is_of_now]
            self._directs = [*known[1 - direct.MOST :], captured.direct]
            self.direct = b"".join(each.address.to_bytes(8, "little") for each in self._directs)

    def _new_kind(self, key: Any) -> Captured:
        known = self._local.by_key
        for gone in [each for each in known if is_gone(each)]:
            del known[gone]
        # Compared with the latest only: who has very many shapes should not pay for each of them.
        latest = itertools.islice(reversed(known), CAPTURES)
        why = self.signature.difference(key, reversed(list(latest)))
        captured = known[key] = Captured(self.__name__, self.python_function, self.fastmath, why)
        if self._runs_later:
            captured.refuse("it is a generator or a coroutine, which runs later", silently=True)
        if has_iterator(key):
            captured.refuse(
                "it is given an iterator, which every call moves on",
                silently=self._warned,
                remedy="Pass a list or a tensor",
            )
            self._warned = True
        if not self._warned and len(known) > CAPTURES:
            self._warned = True
            warn_of_captures(self.__name__, list(known.values()))
        return captured

    # Inspection.

    @property
    def captures(self) -> int:
        """How many kinds of calls this thread has captured."""
        return len(self.captured)

    @property
    def captured(self) -> list[Captured]:
        """What this thread has captured, in the order of the first calls."""
        return [each for known in self._local.by_key.values() for each in known.siblings]

    def capture(self, *args: Any, **kwargs: Any) -> None:
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
        captured = self._local.by_key.get(key) or self._new_kind(key)
        captured = self._local.by_key[key] = captured.with_surroundings()
        if not captured.paths and captured.refused is None:
            captured.prepare(arguments, leaves)

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The function for arguments like these and no others; see `gt.TensorSpec`.

        >>> f = gt.function(lambda x: x + 1.0)
        >>> float(f.get_concrete_function(gt.asarray(1.0))(gt.asarray(2.0)))
        3.0
        >>> g = f.get_concrete_function(gt.TensorSpec((None,)))
        >>> g([1.0, 2.0]).tolist()
        [2.0, 3.0]

        With values the function is captured now, which changes no state; with specs when it is
        first called.
        """
        return ConcreteFunction(self, args, kwargs)

    def program(self, *args: Any, **kwargs: Any) -> Program:
        """The program that computes the results for arguments like these.

        >>> print(gt.function(lambda x: gt.sin(x)).program(gt.asarray(1.0)))
        program(a: float64[]) -> b
          b: float64[] = sin(a)

        It is that of the path which these values take, and computes what variables are assigned,
        too. Nothing is changed by asking.
        """
        _, leaves, arguments = self.signature.of(args, kwargs)
        capture = Capture(Step(), {}, self.fastmath)
        try:
            given = Given(capture, arguments, leaves)
            with captured_run(capture, self.python_function, given) as found:
                results = flatten(found)[0]
                nodes = [leaf.node for leaf in results if is_inside(leaf, capture)]
                nodes += [node for _, node in capture.last_assigned()]
        finally:
            capture.undo()
        return program(dict.fromkeys(nodes))

    def explain(self) -> str:
        """What was captured, why, and what it cost.

        >>> f = gt.function(lambda x: x * 2.0)
        >>> _ = f(gt.asarray(1.0)), f(gt.asarray([1.0]))
        >>> print(f.explain().splitlines()[0])
        <lambda>: 2 kinds of calls
        """
        return explained(self.__name__, self.captured)


class BoundFunction:
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

    def __init__(self, function: Function, instance: Any) -> None:
        self.__func__ = function
        self.__self__ = instance
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
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
    def python_function(self) -> Callable[..., Any]:
        """The undecorated method."""
        return functools.partial(self.__func__.python_function, self.__self__)

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The same as for a function."""
        return ConcreteFunction(self.__func__, (self.__self__, *args), kwargs, (self.__self__,))

    def capture(self, *args: Any, **kwargs: Any) -> None:
        """The same as for a function."""
        self.__func__.capture(self.__self__, *args, **kwargs)

    def program(self, *args: Any, **kwargs: Any) -> Program:
        """The same as for a function."""
        return self.__func__.program(self.__self__, *args, **kwargs)

    def __reduce__(self) -> Any:
        return BoundFunction, (self.__func__, self.__self__)

    def __getattr__(self, name: str) -> Any:
        if name == "__func__":  # asked for before there is one
            raise AttributeError(name)
        return getattr(self.__func__, name)


def runs_in_python() -> bool:
    """Whether somebody wants to see every op: a tape, a trace, another capture, a debug mode."""
    recording = state.recording
    return bool(
        state.tapes
        or recording.active
        or type(recording) is not Recording
        or modes.handle_list is not list
    )
