"""Deferred calls in a graph of TensorFlow 1, and runs that execute them.

`placeholder` returns a `Symbolic`; any function of gradtape.tf called on one returns another. While
a graph is being built every function does, constants included. A run executes the
deferred calls on real tensors: lengths of None become those of the fed values, and every run is
recorded, differentiated and compiled like any other code.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NoReturn

import numpy as np

from gradtape import random
from gradtape.errors import ArgumentError
from gradtape.libraries import check_exports
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.dispatch import EFFECT, PLAIN, WithoutValue, graphs
from gradtape.tf.base.dtypes import DType, as_dtype
from gradtape.tf.base.errors import OperatorNotAllowedInGraphError
from gradtape.tf.base.operators import COMPARISONS, OPERATORS, UNARY
from gradtape.tf.base.shapes import Dims, TensorShape
from gradtape.tf.base.tensor import Reference, Tensor, adopt
from gradtape.tf.base.types import DTypeLike, TensorLike
from gradtape.tf.ops.creation import zeros_like
from gradtape.tf.programs.tape import GradientTape
from gradtape.tf.programs.variable import Variable
from gradtape.tf.v1.graphs import build_from_now_on, default_graph, local
from gradtape.trace.recording import Recording, state

__all__ = ["Symbolic", "group", "placeholder", "placeholder_with_default"]


class Symbolic(WithoutValue):
    """A call that will be made when a session runs: a tensor without a value.

    >>> with tf.Graph().as_default():
    ...     y = 2.0 * tf.placeholder(tf.float32, [None, 3])
    >>> y.shape, y.dtype
    (TensorShape([None, 3]), tf.float32)
    """

    # The number of calls deferred so far.
    created = 0

    # With this, NumPy leaves operators with an array on the left to this class.
    __array_ufunc__ = None

    # Makes a session for `eval`; session.py, which imports this module, assigns it.
    default_session: ClassVar[Callable[[], Any]]

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        effect: bool = False,
    ) -> None:
        Symbolic.created += 1
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.effect = effect
        self.before: tuple[Symbolic, ...] = tuple(default_graph().before)

    @property
    def name(self) -> str:
        """The name of the function that is called."""
        return f"{name_of(self) or 'call'}:0"

    @property
    def shape(self) -> TensorShape:
        """The shape as far as it is known. Two trial runs, with zeros of two sizes, show it."""
        first, second = self._probed()
        if first is None or second is None or len(first.shape) != len(second.shape):
            return TensorShape(None)
        pairs = zip(first.shape, second.shape, strict=True)
        return TensorShape([a if a == b else None for a, b in pairs])

    @property
    def dtype(self) -> DType:
        """The element type."""
        first, _ = self._probed()
        if first is None:
            raise ArgumentError(f"{self.name}: its dtype is known only when a session runs it.")
        return first.dtype

    def _probed(self) -> tuple[Any, Any]:
        return probe(self, 2), probe(self, 3)

    def get_shape(self) -> TensorShape:
        """The same as `shape`."""
        return self.shape

    def set_shape(self, shape: Dims) -> None:
        """Raise a ValueError unless it can have this shape."""
        self.shape.assert_is_compatible_with(shape)

    @property
    def op(self) -> Symbolic:
        """This call itself: there are no ops apart from calls."""
        return self

    def eval(self, feed_dict: Mapping[Any, Any] | None = None, session: Any = None) -> Any:
        """The value that a session computes."""
        return (session or Symbolic.default_session()).run(self, feed_dict)

    run = eval

    def ref(self) -> Reference:
        """Something hashable that stands for this call."""
        return Reference(self)

    def numpy(self) -> NoReturn:
        """Raise an error: there is no value outside a session."""
        raise NotImplementedError(
            f"{self.name} has no value until a session runs it. Use sess.run(...)."
        )

    def __getitem__(self, key: object) -> Any:
        return graphs.take(_get_item, (self, key), {}, PLAIN)

    def __iter__(self) -> Iterator[Any]:
        length = self.shape[0] if self.shape.rank else None
        if length is None:
            raise OperatorNotAllowedInGraphError(
                "iterating over a tensor of unknown length. Use tf.map_fn."
            )
        return (self[k] for k in range(length))

    def __len__(self) -> int:
        raise TypeError("len of a tensor without a value. Use tf.shape(x)[0].")

    def __bool__(self) -> bool:
        raise OperatorNotAllowedInGraphError(
            "a tensor without a value cannot be a Python condition. Use tf.cond, or run it in a "
            "session."
        )

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        dtype = "unknown" if self._probed()[0] is None else self.dtype.name
        return f"<tf.Tensor {self.name!r} shape={self.shape} dtype={dtype}>"


def _get_item(x: object, key: object) -> Tensor:
    return convert(x)[key]


def _calling(
    function: Callable[..., Any], reflected: bool = False, unary: bool = False
) -> Callable[..., Any]:
    if unary:
        return lambda self: graphs.take(_on_tensor(function), (self,), {}, PLAIN)
    if reflected:
        return lambda self, other: function(other, self)
    return lambda self, other: function(self, other)


def _on_tensor(function: Callable[[Tensor], Tensor]) -> Callable[[object], Tensor]:
    return lambda x: function(convert(x))


for _name, _function in OPERATORS.items():
    setattr(Symbolic, f"__{_name}__", _calling(_function))
    setattr(Symbolic, f"__r{_name}__", _calling(_function, reflected=True))
for _name, _function in COMPARISONS.items():
    setattr(Symbolic, f"__{_name}__", _calling(_function))
for _name, _unary in UNARY.items():
    setattr(Symbolic, f"__{_name}__", _calling(_unary, unary=True))


class Placeholder(Symbolic):
    """A tensor that is fed when a session runs."""

    def __init__(
        self, dtype: DTypeLike, shape: Dims, name: str | None, default: Tensor | None = None
    ) -> None:
        super().__init__(placeholder, (), {})
        self._dtype = as_dtype(dtype)
        self._shape = TensorShape(shape)
        self._name = name or "Placeholder"
        self.default = default

    name = property(lambda self: f"{self._name}:0")
    shape = property(lambda self: self._shape)
    dtype = property(lambda self: self._dtype)

    def fed(self, value: Any) -> Tensor:
        """A value to feed, as a tensor of the declared dtype and shape."""
        array = np.asarray(convert(value).read() if hasattr(value, "enter") else value)
        result = convert(array.astype(self._dtype))
        if not self._shape.is_compatible_with(result.shape):
            raise ValueError(
                f"Cannot feed value of shape {result.shape} for {self.name}, which has shape "
                f"{self._shape}."
            )
        return result


def placeholder(dtype: DTypeLike, shape: Dims = None, name: str | None = None) -> Any:
    """A tensor whose value is fed to `Session.run`; lengths that may differ are None.

    >>> x = tf.placeholder(tf.float32, shape=[None])
    >>> with tf.Session() as sess:
    ...     print(sess.run(x * 2.0, feed_dict={x: [1.0, 2.0]}))
    [2. 4.]
    >>> tf.compat.v1.enable_eager_execution()

    From the first placeholder on, calls on variables are deferred too, as scripts of TensorFlow 1
    expect. `tf.compat.v1.enable_eager_execution()` ends that.
    """
    build_from_now_on()
    return Placeholder(dtype, shape, name)


def placeholder_with_default(input: TensorLike, shape: Dims, name: str | None = None) -> Any:
    """A placeholder with a value for runs that feed none.

    >>> x = tf.compat.v1.placeholder_with_default([1.0, 2.0], [None])
    >>> tf.Session().run(x * 2.0).tolist()
    [2.0, 4.0]
    >>> tf.compat.v1.enable_eager_execution()
    """
    build_from_now_on()
    start = convert(input)
    return Placeholder(start.dtype, shape, name, start)


def group(*inputs: object, **kwargs: object) -> Any:
    """One call to run that makes several calls and returns nothing.

    >>> tf.group()
    """
    unknown = sorted(set(kwargs) - {"name"})
    if unknown:
        raise ValueError(f"group: unknown arguments {unknown}.")
    calls = [each for each in inputs if isinstance(each, Symbolic)]
    if not calls:
        return None
    return Symbolic(_nothing, (calls,), {}, True)


def _nothing(_: object) -> None:
    return None


class Run:
    """One run of a session: the values that are fed, and those computed so far."""

    def __init__(self, feeds: dict[int, Any]) -> None:
        self.values: dict[int, Any] = dict(feeds)

    def values_of(self, nest: Any) -> Any:
        """A nest with every deferred call in it replaced by its value."""
        if isinstance(nest, Symbolic):
            return self.value(nest)
        if isinstance(nest, dict):
            return type(nest)((key, self.values_of(item)) for key, item in nest.items())
        if type(nest) in (list, tuple):
            return type(nest)(self.values_of(item) for item in nest)
        if isinstance(nest, tuple) and hasattr(nest, "_fields"):
            return type(nest)(*(self.values_of(item) for item in nest))
        if isinstance(nest, slice):
            return slice(*(self.values_of(x) for x in (nest.start, nest.stop, nest.step)))
        return nest

    def value(self, wanted: Symbolic) -> Any:
        """The value of a call, after its dependencies; not recursive: graphs may be deep."""
        waiting = [wanted]
        while waiting:
            call = waiting[-1]
            if id(call) in self.values:
                waiting.pop()
                continue
            missing = [
                each
                for each in (*call.before, *symbolic_parts((call.args, call.kwargs)))
                if id(each) not in self.values
            ]
            if missing:
                waiting += reversed(missing)
                continue
            waiting.pop()
            self.values[id(call)] = self._make(call)
        return self.values[id(wanted)]

    def _make(self, call: Symbolic) -> Any:
        if isinstance(call, Placeholder):
            return self._fed(call)
        result = call.function(*self.values_of(call.args), **self.values_of(call.kwargs))
        return self.values_of(result)

    def _fed(self, call: Placeholder) -> Any:
        if call.default is not None:
            return call.default
        raise ArgumentError(
            f"You must feed a value for placeholder {call.name!r}, with dtype {call.dtype.name} "
            f"and shape {call.shape}: sess.run(..., feed_dict={{x: value}})."
        )


class Probing(Run):
    """A trial run on zeros with one size for all unknown lengths: recorded, never computed."""

    def __init__(self, size: int) -> None:
        super().__init__({})
        self.size = size
        self.recording = Recording()
        # A tape keeps the recording when functions read values: gradients may come after that.
        self.tapes: list[Any] = []
        # Values are keyed by the id of their call, so the calls have to stay alive.
        self.kept: list[Symbolic] = []

    def _make(self, call: Symbolic) -> Any:
        self.kept.append(call)
        try:
            return self._shape_of(call)
        except Exception:
            return None

    def _shape_of(self, call: Symbolic) -> Any:
        if isinstance(call, Placeholder):
            lengths = [self.size if n is None else n for n in call.shape.as_list()]
            return convert(np.zeros(lengths, call.dtype))
        name = name_of(call)
        if name in ("py_function", "numpy_function"):
            return None
        if name == "while_loop":
            # On zeros the loop might never end; its results are shaped like its variables.
            carried = call.kwargs["loop_vars"] if "loop_vars" in call.kwargs else call.args[2]
            return self.values_of(carried)
        if call.effect:
            return call.args[0].value if name.startswith("assign") else None
        return super()._make(call)


def probe(call: Symbolic, size: int) -> Any:
    """The result of a trial run, for its shape and dtype; None if the trial run fails."""
    run = local.probes.get(size)
    if run is None:
        run = local.probes[size] = Probing(size)
    outer, tapes = state.recording, state.tapes
    stream = random._shared.get("generator")
    counter = None if stream is None else stream._counter
    if run.recording.closed:
        run.recording, run.tapes = Recording(), []
    state.recording, state.tapes = run.recording, run.tapes
    try:
        if not run.tapes:
            GradientTape(persistent=True, watch_accessed_variables=False).__enter__()
        with running(run):
            return run.value(call)
    finally:
        run.recording = state.recording
        # Leaves from outside were computed in the outer recording, which this may have closed.
        state.recording, state.tapes = Recording() if outer.closed else outer, tapes
        if stream is not None and counter is not None:
            stream._counter = counter


def symbolic_parts(nest: object) -> list[Symbolic]:
    """The deferred calls in a nest, which may be deep or contain itself."""
    found: list[Symbolic] = []
    seen: set[int] = set()
    waiting = [nest]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Symbolic):
            found.append(item)
        elif isinstance(item, slice):
            waiting += [item.step, item.stop, item.start]
        elif isinstance(item, (dict, list, tuple)) and id(item) not in seen:
            seen.add(id(item))
            waiting += reversed(list(item.values()) if isinstance(item, dict) else item)
    return found


@contextlib.contextmanager
def running(run: Run) -> Iterator[None]:
    """Execute every call inside the context at once, on the values of a run."""
    before, local.run = local.run, run
    try:
        yield
    finally:
        local.run = before


def take(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], kind: str
) -> Any:
    """Execute a call, or defer it if an argument has no value yet."""
    if local.run is not None:
        return adopt(function(*local.run.values_of(args), **local.run.values_of(kwargs)))
    if local.building is not None or symbolic_parts((args, kwargs)):
        return _unpacked(Symbolic(function, args, kwargs, kind is EFFECT))
    return adopt(function(*args, **kwargs))


def _unpacked(call: Symbolic) -> Any:
    """Split a call that returns a list or a tuple into calls that pick its elements."""
    result = probe(call, 2)
    if name_of(call) in ("gradients", "hessians"):
        return _gradients(call, result)
    if not isinstance(result, (list, tuple)):
        return call
    parts = [_unpacked(Symbolic(picked, (call, number), {})) for number in range(len(result))]
    return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)


def picked(whole: Any, number: int) -> Any:
    """One element of the result of a call."""
    return whole[number]


def _gradients(call: Symbolic, found: list[Any] | None) -> list[Any]:
    """The gradients that a call will compute: None by sources that are surely unconnected.

    The trial run on zeros shows that, unless the way from the targets to the source passes a
    branch or a loop that another run may take, or a call that could not be tried.
    """
    passed = inspect.signature(call.function).bind(*call.args, **call.kwargs).arguments
    ys, xs = passed["ys"], passed["xs"]
    before, is_certain = _calls_before(ys)
    if any(probe(target, 2) is None for target in symbolic_parts(ys)):
        found = None
    sources = list(xs) if isinstance(xs, (list, tuple)) else [xs]
    absent = [
        is_certain
        and (
            id(source) not in before
            if found is None and isinstance(source, Symbolic)
            else found is not None and found[number] is None
        )
        for number, source in enumerate(sources)
    ]
    # A run must not need the values of sources that are unconnected.
    connected = [source for source, none in zip(sources, absent, strict=True) if not none]
    call = Symbolic(call.function, (), {**passed, "xs": connected})
    made = iter([Symbolic(_gradient, (call, k, x), {}) for k, x in enumerate(connected)])
    return [None if none else next(made) for none in absent]


def _gradient(whole: list[Any], number: int, source: Any) -> Any:
    """One gradient; zeros if the branches that this run took do not lead to the source."""
    return zeros_like(source) if whole[number] is None else whole[number]


def _calls_before(ys: object) -> tuple[set[int], bool]:
    """The ids of the calls that targets are made of, and whether a trial run shows them all."""
    seen: set[int] = set()
    is_certain = True
    waiting = symbolic_parts(ys)
    while waiting:
        call = waiting.pop()
        if id(call) in seen:
            continue
        seen.add(id(call))
        # Derivatives end at a NumPy function.
        if name_of(call) != "numpy_function":
            passed = (*call.args, *call.kwargs.values())
            # Functions among the arguments, and compiled ones, may read anything.
            opaque = any(callable(each) and not isinstance(each, type) for each in passed)
            is_certain &= not opaque and name_of(call) != "_call"
            waiting += symbolic_parts(passed)
    return seen, is_certain


def name_of(call: Symbolic) -> str:
    """The name of the function that is called, if it has one."""
    return getattr(call.function, "__name__", "")


def settle(value: Any) -> Any:
    """The initial value of a variable, computed if it is a deferred call."""
    if isinstance(value, Symbolic):
        run = Run({})
        with running(run):
            return run.value(value)
    return value


def register(variable: Variable) -> None:
    """Add a new variable to the graph that is being built, if there is one."""
    if local.building is not None:
        local.building.variables.append(variable)


# base/dispatch.py, which cannot import this package, passes calls here while graphs are in use.
graphs.take, graphs.settle, graphs.register = take, settle, register
graphs.is_running = lambda: local.run is not None


check_exports(globals(), __all__)
