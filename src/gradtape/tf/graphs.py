"""Graphs of TensorFlow 1: calls that are noted down, and made when a session runs them.

`placeholder` gives a `Symbolic`; a call of any function of this face on one gives another. So do
reads of variables, assignments and random numbers while a graph is being built, that is inside
`tf.Graph().as_default()`, after `tf.compat.v1.disable_eager_execution()`, or from the first
placeholder on. `Session.run` makes the noted calls on real tensors: lengths of None are whatever is
fed, and every run is recorded, differentiated and compiled like any other code.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gradtape.errors import ArgumentError
from gradtape.tf.conversion import convert
from gradtape.tf.dispatch import PLAIN, graphs
from gradtape.tf.dtypes import DType, as_dtype
from gradtape.tf.errors import OperatorNotAllowedInGraphError
from gradtape.tf.operators import COMPARISONS, OPERATORS, UNARY
from gradtape.tf.shapes import TensorShape
from gradtape.tf.tensor import Reference
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
            # What was recorded to learn shapes; who asks again has it recorded again.
            local.probes.clear()

    def get_collection(self, name: str, scope: str | None = None) -> list[Any]:
        """What was added to a collection; the variables for the usual names."""
        if name in ("variables", "trainable_variables", "global_variables"):
            found = [v for v in self.variables if v.trainable or name != "trainable_variables"]
        else:
            found = list(self.collections.get(name, ()))
        if scope is None:
            return found
        return [each for each in found if re.match(scope, getattr(each, "name", None) or "")]

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

    # How many there have been.
    created = 0

    # NumPy leaves operators to us.
    __array_ufunc__ = None

    def __init__(
        self, function: Callable[..., Any], args: Any, kwargs: Any, effect: bool = False
    ) -> None:
        Symbolic.created += 1
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
        from gradtape.tf.runs import probe

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


def group(*inputs: Any, **kwargs: Any) -> Any:
    """One thing to run that makes several calls; gives nothing.

    >>> tf.group()
    """
    unknown = sorted(set(kwargs) - {"name"})
    if unknown:
        raise ValueError(f"group: unknown arguments {unknown}.")
    calls: Sequence[Any] = [each for each in inputs if isinstance(each, Symbolic)]
    if not calls:
        return None
    return Symbolic(_nothing, (list(calls),), {}, True)


def _nothing(_: Any) -> None:
    return None
