"""Graphs of TensorFlow 1: which one is being built, its variables and collections.

A graph is built inside `tf.Graph().as_default()`, after `tf.compat.v1.disable_eager_execution()`,
or from the first placeholder on. Calls are then deferred (see symbolic.py).
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from gradtape.libraries import check_exports
from gradtape.tf.base.dispatch import WithoutValue, graphs
from gradtape.tf.programs.variable import Variable

__all__ = [
    "Graph",
    "GraphKeys",
    "control_dependencies",
    "disable_eager_execution",
    "disable_v2_behavior",
    "enable_eager_execution",
    "enable_v2_behavior",
    "executing_eagerly",
    "get_collection",
    "get_default_graph",
    "reset_default_graph",
]


class Graph:
    """A graph of deferred calls, with the variables made in it.

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
        # Calls that run before every call that is deferred from now on (control_dependencies).
        self.before: list[Any] = []
        # Whether get_variable returns existing variables: None, True, or "auto" (AUTO_REUSE).
        self.reuse: bool | str | None = None

    @contextlib.contextmanager
    def as_default(self) -> Iterator[Graph]:
        """Build this graph inside."""
        graphs.in_use = True
        before, local.building = local.building, self
        try:
            yield self
        finally:
            local.building = before
            # Drop the recordings made to learn shapes; they are made again when needed.
            local.probes.clear()

    def get_collection(self, name: str, scope: str | None = None) -> list[Any]:
        """The content of a collection; GraphKeys names those of the variables."""
        if name in ("variables", "trainable_variables", "global_variables"):
            result = [v for v in self.variables if v.trainable or name != "trainable_variables"]
        else:
            result = list(self.collections.get(name, ()))
        if scope is None:
            return result
        return [each for each in result if re.match(scope, getattr(each, "name", None) or "")]

    def finalize(self) -> None:
        """Accepted, and without effect: a graph may always grow."""


class _Local(threading.local):
    def __init__(self) -> None:
        self.building: Graph | None = None
        self.run: Any = None
        self.probes: dict[int, Any] = {}


local = _Local()
_default = Graph()


def default_graph() -> Graph:
    """The graph that is being built, or else the global default graph."""
    return local.building or _default


def build_from_now_on() -> None:
    """Defer calls from now on, as TensorFlow 1 does."""
    graphs.in_use = True
    if local.building is None:
        local.building = _default


def stop_building() -> None:
    """Execute calls at once again."""
    local.building = None


class GraphKeys:
    """Names of collections.

    >>> tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES
    'trainable_variables'
    """

    GLOBAL_VARIABLES = "variables"
    TRAINABLE_VARIABLES = "trainable_variables"


def disable_eager_execution() -> None:
    """Defer calls from here on, and execute them in sessions, as TensorFlow 1 does.

    >>> tf.compat.v1.disable_eager_execution()
    >>> w = tf.Variable(2.0)
    >>> square = w * w
    >>> with tf.Session() as sess:
    ...     sess.run(w.assign(3.0)).item(), sess.run(square).item()
    (3.0, 9.0)
    >>> tf.compat.v1.enable_eager_execution()
    """
    build_from_now_on()


def enable_eager_execution(*_: object, **__: object) -> None:
    """Make calls at once again.

    >>> tf.compat.v1.enable_eager_execution()
    """
    stop_building()


def disable_v2_behavior() -> None:
    """The same as disable_eager_execution.

    >>> tf.compat.v1.disable_v2_behavior()
    >>> tf.compat.v1.enable_v2_behavior()
    """
    disable_eager_execution()


def enable_v2_behavior() -> None:
    """The same as enable_eager_execution.

    >>> tf.compat.v1.enable_v2_behavior()
    """
    enable_eager_execution()


def executing_eagerly() -> bool:
    """Whether calls are made at once.

    >>> tf.executing_eagerly()
    True
    """
    return local.building is None or local.run is not None


def get_default_graph() -> Graph:
    """The graph that is being built.

    >>> tf.compat.v1.get_default_graph() is tf.compat.v1.get_default_graph()
    True
    """
    return default_graph()


def reset_default_graph() -> None:
    """Forget the variables and names of the default graph.

    >>> tf.compat.v1.reset_default_graph()
    """
    graph = default_graph()
    graph.variables, graph.names, graph.collections = [], {}, {}
    local.probes.clear()


def get_collection(key: str, scope: str | None = None) -> list[Any]:
    """The content of a collection of the default graph.

    >>> tf.compat.v1.get_collection("losses")
    []
    """
    return get_default_graph().get_collection(key, scope)


@contextlib.contextmanager
def control_dependencies(control_inputs: Iterable[object] | None) -> Iterator[None]:
    """Run calls that are deferred inside the context after these.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     w = tf.Variable(1.0)
    ...     with tf.control_dependencies([w.assign(5.0)]):
    ...         y = tf.identity(w)
    ...     print(sess.run(y))
    5.0
    """
    graph = default_graph()
    before = graph.before
    result = [each for each in control_inputs or () if isinstance(each, WithoutValue)]
    graph.before = [*before, *result]
    try:
        yield
    finally:
        graph.before = before


check_exports(globals(), __all__)
