"""Graphs of TensorFlow 1: calls that are noted down, and made when a session runs them.

`placeholder` gives a `Symbolic`; a call of any function of this face on one gives another. So do
reads of variables, assignments and random numbers while a graph is being built, that is inside
`tf.Graph().as_default()`, after `tf.compat.v1.disable_eager_execution()`, or from the first
placeholder on. `Session.run` makes the noted calls on real tensors: lengths of None are whatever is
fed, and every run is recorded, differentiated and compiled like any other code.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gradtape import random
from gradtape.errors import ArgumentError
from gradtape.graph.recording import Recording, state
from gradtape.tf.conversion import convert
from gradtape.tf.dispatch import EFFECT, PLAIN, graphs
from gradtape.tf.dtypes import DType, as_dtype
from gradtape.tf.operators import COMPARISONS, OPERATORS, UNARY
from gradtape.tf.shapes import TensorShape
from gradtape.tf.tensor import Reference, adopt
from gradtape.tf.variable import Variable

__all__ = ["Graph", "Symbolic", "placeholder", "placeholder_with_default"]


class Graph:
    """A graph of noted calls, with the variables made in it.

    >>> with tf.Graph().as_default():
    ...     x = tf.placeholder(tf.float32, [None])
    ...     y = tf.reduce_sum(x * x)
    ...     with tf.Session() as sess:
    ...         print(sess.run(y, {x: [1.0, 2.0]}))
    5.0
    """

    def __init__(self) -> None:
        self.variables: list[Variable] = []
        self.names: dict[str, Variable] = {}
        self.collections: dict[str, list[Any]] = {}
        # Effects that happen before whatever is noted now.
        self.before: list[Any] = []
        # Whether get_variable gives variables again: None, True, or "auto".
        self.reuse: Any = None

    @contextlib.contextmanager
    def as_default(self) -> Iterator[Graph]:
        """Build this graph inside."""
        graphs.in_use = True
        before, local.building = local.building, self
        try:
            yield self
        finally:
            local.building = before

    def get_collection(self, name: str, scope: str | None = None) -> list[Any]:
        """What was added to a collection; the variables for the usual names."""
        if name in ("variables", "trainable_variables", "global_variables"):
            return [v for v in self.variables if v.trainable or name != "trainable_variables"]
        return list(self.collections.get(name, ()))

    def finalize(self) -> None:
        """Nothing: a graph may always grow."""


class _Local(threading.local):
    def __init__(self) -> None:
        self.building: Graph | None = None
        self.run: Any = None
        self.probes: dict[int, Any] = {}


local = _Local()
_default = Graph()


def default_graph() -> Graph:
    """The graph that is being built, or the one there always is."""
    return local.building or _default


def build_from_now_on() -> None:
    """Note calls down from here, as TensorFlow 1 does."""
    graphs.in_use = True
    if local.building is None:
        local.building = _default


def stop_building() -> None:
    """Make calls at once again."""
    local.building = None


class Symbolic:
    """A call that will be made when a session runs: a tensor without a value.

    >>> with tf.Graph().as_default():
    ...     y = 2.0 * tf.placeholder(tf.float32, [None, 3])
    >>> y.shape, y.dtype
    (TensorShape([None, 3]), tf.float32)
    """

    # NumPy leaves operators to us.
    __array_ufunc__ = None

    def __init__(
        self, function: Callable[..., Any], args: Any, kwargs: Any, effect: bool = False
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.effect = effect
        self.before = tuple(default_graph().before)

    @property
    def name(self) -> str:
        """What it is the result of."""
        return f"{getattr(self.function, '__name__', 'call')}:0"

    @property
    def shape(self) -> TensorShape:
        """The shape as far as it is known: found by making the call on zeros of two sizes."""
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
            raise ArgumentError(f"{self.name}: its dtype shows only in a session.")
        return first.dtype

    def _probed(self) -> tuple[Any, Any]:
        return probe(self, 2), probe(self, 3)

    def get_shape(self) -> TensorShape:
        """The shape as far as it is known."""
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Raise a ValueError unless it can have this shape."""
        self.shape.assert_is_compatible_with(shape)

    @property
    def op(self) -> Symbolic:
        """Itself: there are no ops apart from calls."""
        return self

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """What a session gives for it."""
        from gradtape.tf.session import Session

        return (session or Session()).run(self, feed_dict)

    run = eval

    def ref(self) -> Reference:
        """Something hashable that stands for it."""
        return Reference(self)

    def numpy(self) -> Any:
        """Refused: there is no value outside a session."""
        raise NotImplementedError(
            f"{self.name} has no value until a session runs it. Use sess.run(...)."
        )

    def __getitem__(self, key: Any) -> Any:
        return graphs.take(_get_item, (self, key), {}, PLAIN)

    def __iter__(self) -> Iterator[Any]:
        length = self.shape[0] if self.shape else None
        if length is None:
            raise TypeError("iterating over a tensor of unknown length. Use tf.map_fn.")
        return (self[k] for k in range(length))

    def __len__(self) -> int:
        raise TypeError("len of a tensor without a value. Use tf.shape(x)[0].")

    def __bool__(self) -> bool:
        raise TypeError(
            "a tensor without a value cannot be a Python condition. Use tf.cond, or run it in a "
            "session."
        )

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        dtype = "unknown" if self._probed()[0] is None else self.dtype.name
        return f"<tf.Tensor {self.name!r} shape={self.shape} dtype={dtype}>"


def _get_item(x: Any, key: Any) -> Any:
    return convert(x)[key]


def _calling(function: Any, reflected: bool = False, unary: bool = False) -> Any:
    if unary:
        return lambda self: graphs.take(_on_tensor(function), (self,), {}, PLAIN)
    if reflected:
        return lambda self, other: function(other, self)
    return lambda self, other: function(self, other)


def _on_tensor(function: Any) -> Any:
    return lambda x: function(convert(x))


for _name, _function in OPERATORS.items():
    setattr(Symbolic, f"__{_name}__", _calling(_function))
    setattr(Symbolic, f"__r{_name}__", _calling(_function, reflected=True))
for _name, _function in COMPARISONS.items():
    setattr(Symbolic, f"__{_name}__", _calling(_function))
for _name, _function in UNARY.items():
    setattr(Symbolic, f"__{_name}__", _calling(_function, unary=True))


class Placeholder(Symbolic):
    """A tensor that is fed when a session runs."""

    def __init__(self, dtype: Any, shape: Any, name: str | None, default: Any = None) -> None:
        super().__init__(placeholder, (), {})
        self._dtype = as_dtype(dtype)
        self._shape = TensorShape(shape)
        self._name = name or "Placeholder"
        self.default = default

    @property
    def name(self) -> str:
        """The name it was given."""
        return f"{self._name}:0"

    @property
    def shape(self) -> TensorShape:
        """The shape it was given."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    def fed(self, value: Any) -> Any:
        """A value as a tensor that fits."""
        array = np.asarray(convert(value).read() if hasattr(value, "enter") else value)
        found = convert(array.astype(self._dtype))
        if not self._shape.is_compatible_with(found.shape):
            raise ValueError(
                f"Cannot feed value of shape {found.shape} for {self.name}, which has shape "
                f"{self._shape}."
            )
        return found


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Any:
    """A tensor whose value is fed to `Session.run`; lengths that may differ are None.

    >>> x = tf.placeholder(tf.float32, shape=[None])
    >>> with tf.Session() as sess:
    ...     print(sess.run(x * 2.0, feed_dict={x: [1.0, 2.0]}))
    [2. 4.]
    >>> tf.compat.v1.enable_eager_execution()

    From the first placeholder on, calls on variables are noted down, too: a script of TensorFlow 1
    goes on as it means to. `tf.compat.v1.enable_eager_execution()` ends that.
    """
    build_from_now_on()
    return Placeholder(dtype, shape, name)


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Any:
    """A placeholder that has a value where none is fed.

    >>> x = tf.compat.v1.placeholder_with_default([1.0, 2.0], [None])
    >>> tf.Session().run(x * 2.0).tolist()
    [2.0, 4.0]
    >>> tf.compat.v1.enable_eager_execution()
    """
    build_from_now_on()
    start = convert(input)
    return Placeholder(start.dtype, shape, name, start)


def _mentions(nest: Any, building: bool) -> bool:
    """Whether a nest of arguments holds something without a value, or a variable while building."""
    if isinstance(nest, Symbolic):
        return True
    if isinstance(nest, Variable):
        return building
    if isinstance(nest, (list, tuple)):
        return any(_mentions(item, building) for item in nest)
    if isinstance(nest, dict):
        return any(_mentions(item, building) for item in nest.values())
    if isinstance(nest, slice):
        return any(_mentions(x, building) for x in (nest.start, nest.stop, nest.step))
    return False


def take(function: Callable[..., Any], args: Any, kwargs: Any, kind: str) -> Any:
    """Make a call, or note it down if something in it has no value yet."""
    if local.run is not None:
        return adopt(function(*local.run.given(args), **local.run.given(kwargs)))
    building = local.building is not None
    if (building and kind is not PLAIN) or _mentions((args, kwargs), building):
        return _unpacked(Symbolic(function, args, kwargs, kind is EFFECT))
    return adopt(function(*args, **kwargs))


def _unpacked(call: Symbolic) -> Any:
    """A call that gives a list or a tuple is as many calls that pick from it."""
    found = probe(call, 2)
    if not isinstance(found, (list, tuple)):
        return call
    parts = [_unpacked(Symbolic(_picked, (call, number), {})) for number in range(len(found))]
    return type(found)(*parts) if hasattr(found, "_fields") else type(found)(parts)


def _picked(whole: Any, number: int) -> Any:
    return whole[number]


class Run:
    """One run of a session: what is fed, and what was computed so far."""

    def __init__(self, feeds: dict[int, Any]) -> None:
        self.values: dict[int, Any] = dict(feeds)

    def given(self, nest: Any) -> Any:
        """A nest with everything symbolic in it replaced by its value."""
        if isinstance(nest, Symbolic):
            return self.value(nest)
        if isinstance(nest, dict):
            return type(nest)((key, self.given(item)) for key, item in nest.items())
        if type(nest) in (list, tuple):
            return type(nest)(self.given(item) for item in nest)
        if isinstance(nest, tuple) and hasattr(nest, "_fields"):
            return type(nest)(*(self.given(item) for item in nest))
        if isinstance(nest, slice):
            return slice(*(self.given(x) for x in (nest.start, nest.stop, nest.step)))
        return nest

    def value(self, wanted: Symbolic) -> Any:
        """The value of a call; calls it depends on are made first, not by recursion."""
        waiting = [wanted]
        while waiting:
            call = waiting[-1]
            if id(call) in self.values:
                waiting.pop()
                continue
            missing = [
                each for each in (*call.before, *_inside((call.args, call.kwargs)))
                if id(each) not in self.values
            ]  # fmt: skip
            if missing:
                waiting += reversed(missing)
                continue
            waiting.pop()
            self.values[id(call)] = self._made(call)
        return self.values[id(wanted)]

    def _made(self, call: Symbolic) -> Any:
        if isinstance(call, Placeholder):
            return self._fed(call)
        result = call.function(*self.given(call.args), **self.given(call.kwargs))
        return self.given(result)

    def _fed(self, call: Placeholder) -> Any:
        if call.default is not None:
            return call.default
        raise ArgumentError(
            f"You must feed a value for placeholder {call.name!r}, with dtype {call.dtype.name} "
            f"and shape {call.shape}: sess.run(..., feed_dict={{x: value}})."
        )


class Probing(Run):
    """A run on zeros, with unknown lengths of some size: it is recorded, and never computed."""

    def __init__(self, size: int) -> None:
        super().__init__({})
        self.size = size
        self.recording = Recording()
        # Numbers are as good as names only while what they stand for lives.
        self.kept: list[Symbolic] = []

    def _made(self, call: Symbolic) -> Any:
        self.kept.append(call)
        try:
            return self._shape_of(call)
        except Exception:
            return None

    def _shape_of(self, call: Symbolic) -> Any:
        if isinstance(call, Placeholder):
            lengths = [self.size if n is None else n for n in call.shape.as_list()]
            return convert(np.zeros(lengths, call.dtype))
        name = getattr(call.function, "__name__", "")
        if name in ("py_function", "numpy_function"):
            return None
        if name == "while_loop":
            # On zeros it might never end; what it carries keeps its structure.
            carried = call.kwargs["loop_vars"] if "loop_vars" in call.kwargs else call.args[2]
            return self.given(carried)
        if call.effect:
            return call.args[0].value if name.startswith("assign") else None
        return super()._made(call)


def probe(call: Symbolic, size: int) -> Any:
    """What a call gives for unknown lengths of some size: of interest are shape and dtype."""
    run = local.probes.get(size)
    if run is None:
        run = local.probes[size] = Probing(size)
    outer, tapes = state.recording, state.tapes
    stream = random._shared.get("generator")
    counter = None if stream is None else stream._counter
    if run.recording.closed:
        run.recording = Recording()
    state.recording, state.tapes = run.recording, []
    try:
        with running(run):
            return run.value(call)
    finally:
        run.recording = state.recording
        # What entered from outside was computed there, which may have ended that recording.
        state.recording, state.tapes = Recording() if outer.closed else outer, tapes
        if stream is not None and counter is not None:
            stream._counter = counter


def _inside(nest: Any) -> list[Symbolic]:
    if isinstance(nest, Symbolic):
        return [nest]
    if isinstance(nest, dict):
        nest = tuple(nest.values())
    if isinstance(nest, slice):
        nest = (nest.start, nest.stop, nest.step)
    if isinstance(nest, (list, tuple)):
        return [found for item in nest for found in _inside(item)]
    return []


@contextlib.contextmanager
def running(run: Run) -> Iterator[None]:
    """Make every call inside at once, on the values of a run."""
    before, local.run = local.run, run
    try:
        yield
    finally:
        local.run = before


def settle(value: Any) -> Any:
    """The value of now of what a variable begins with."""
    if isinstance(value, Symbolic):
        run = Run({})
        with running(run):
            return run.value(value)
    return value


def register(variable: Variable) -> None:
    """A variable was made while graphs are in use."""
    if local.building is not None:
        local.building.variables.append(variable)


graphs.take, graphs.settle, graphs.register = take, settle, register
graphs.is_running = lambda: local.run is not None


def group(*inputs: Any, **kwargs: Any) -> Any:
    """One thing to run that makes several calls; gives nothing.

    >>> tf.group()
    """
    calls: Sequence[Any] = [each for each in inputs if isinstance(each, Symbolic)]
    if not calls:
        return None
    return Symbolic(_nothing, (list(calls),), {}, True)


def _nothing(_: Any) -> None:
    return None
