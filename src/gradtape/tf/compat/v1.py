"""TensorFlow 1: sessions, placeholders, variable scopes and optimizers that make ops.

Everything of `gradtape.tf` is here too; below is what TensorFlow 2 has no more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from gradtape.tf import graphs as _graphs
from gradtape.tf.compat import nn, train
from gradtape.tf.compat.arguments import OLD_ARGUMENTS, renaming
from gradtape.tf.conversion import convert
from gradtape.tf.dispatch import effect, operation
from gradtape.tf.dtypes import float32, float64, int32, int64
from gradtape.tf.elementwise import FUNCTIONS
from gradtape.tf.graphs import Graph, group, placeholder, placeholder_with_default
from gradtape.tf.linalg import inv
from gradtape.tf.random import normal as random_normal
from gradtape.tf.random import set_seed, truncated_normal
from gradtape.tf.random import uniform as random_uniform
from gradtape.tf.scopes import name_scope, without_prefix
from gradtape.tf.session import InteractiveSession, Session
from gradtape.tf.variable import Variable

__all__ = [
    "AUTO_REUSE", "ConfigProto", "Graph", "GraphKeys", "InteractiveSession", "Session", "assign",
    "assign_add", "assign_sub", "control_dependencies", "disable_eager_execution",
    "disable_v2_behavior", "div", "enable_eager_execution", "enable_v2_behavior",
    "executing_eagerly", "get_collection", "get_default_graph", "get_default_session",
    "get_variable", "global_variables", "global_variables_initializer", "group",
    "initialize_all_variables", "local_variables_initializer", "log", "matrix_inverse",
    "name_scope", "nn", "no_op", "placeholder", "placeholder_with_default", "random_normal",
    "random_uniform", "reset_default_graph", "set_random_seed", "to_double", "to_float", "to_int32",
    "to_int64", "train", "trainable_variables", "truncated_normal", "variable_scope",
    "variables_initializer",
]  # fmt: skip


class ConfigProto:
    """Options of a session: accepted, and without effect.

    >>> sess = tf.Session(config=tf.compat.v1.ConfigProto(allow_soft_placement=True))
    """

    def __init__(self, **options: Any) -> None:
        self.__dict__.update(options)


def get_default_session() -> None:
    """None: every session is as good as another.

    >>> tf.compat.v1.get_default_session() is None
    True
    """


class GraphKeys:
    """Names of collections.

    >>> tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES
    'trainable_variables'
    """

    GLOBAL_VARIABLES = "variables"
    TRAINABLE_VARIABLES = "trainable_variables"


def disable_eager_execution() -> None:
    """Note calls down from here on, and make them in sessions, as TensorFlow 1 does.

    >>> tf.compat.v1.disable_eager_execution()
    >>> w = tf.Variable(2.0)
    >>> square = w * w
    >>> with tf.Session() as sess:
    ...     sess.run(w.assign(3.0)).item(), sess.run(square).item()
    (3.0, 9.0)
    >>> tf.compat.v1.enable_eager_execution()
    """
    _graphs.build_from_now_on()


def enable_eager_execution(*_: Any, **__: Any) -> None:
    """Make calls at once again.

    >>> tf.compat.v1.enable_eager_execution()
    """
    _graphs.stop_building()


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
    return _graphs.local.building is None or _graphs.local.run is not None


def get_default_graph() -> Graph:
    """The graph that is being built.

    >>> tf.compat.v1.get_default_graph() is tf.compat.v1.get_default_graph()
    True
    """
    return _graphs.default_graph()


def reset_default_graph() -> None:
    """Forget the variables and names of the default graph.

    >>> tf.compat.v1.reset_default_graph()
    """
    graph = _graphs.default_graph()
    graph.variables, graph.names, graph.collections = [], {}, {}
    _graphs.local.probes.clear()


def global_variables(scope: str | None = None) -> list[Variable]:
    """The variables made while a graph is built.

    >>> with tf.Graph().as_default():
    ...     w = tf.Variable(1.0, name="w")
    ...     print([v.name for v in tf.compat.v1.global_variables()])
    ['w:0']
    """
    return [v for v in get_default_graph().variables if scope is None or v.name.startswith(scope)]


def trainable_variables(scope: str | None = None) -> list[Variable]:
    """Those of them that are to be trained.

    >>> with tf.Graph().as_default():
    ...     w = tf.Variable(1.0, trainable=False)
    ...     print(tf.compat.v1.trainable_variables())
    []
    """
    return [variable for variable in global_variables(scope) if variable.trainable]


def get_collection(key: str, scope: str | None = None) -> list[Any]:
    """What a collection of the default graph holds.

    >>> tf.compat.v1.get_collection("losses")
    []
    """
    return get_default_graph().get_collection(key, scope)


def variables_initializer(var_list: Any, name: str = "init") -> Any:
    """Something to run that gives variables their initial values again.

    >>> with tf.Graph().as_default():
    ...     w = tf.Variable(1.0)
    ...     with tf.Session() as sess:
    ...         _ = sess.run(w.assign(5.0))
    ...         sess.run(tf.compat.v1.variables_initializer([w]))
    ...         print(sess.run(w))
    1.0
    """
    return _graphs.Symbolic(_initialize, (), {"wanted": _Listed(list(var_list))}, True)


class _Listed:
    """Variables that are meant themselves, not their values."""

    def __init__(self, variables: list[Variable]) -> None:
        self.variables = variables


def _initialize(wanted: _Listed) -> None:
    for variable in wanted.variables:
        start = variable.initial_value
        start = start() if callable(start) else start
        variable.assign(convert(_graphs.local.run.given(start), variable.dtype))


def global_variables_initializer() -> Any:
    """Something to run that initialises all variables made so far.

    >>> with tf.Graph().as_default():
    ...     w = tf.Variable(1.0)
    ...     with tf.Session() as sess:
    ...         sess.run(tf.compat.v1.global_variables_initializer())
    """
    return variables_initializer(global_variables())


initialize_all_variables = global_variables_initializer


def local_variables_initializer() -> Any:
    """Something to run that does nothing: there are no local variables.

    >>> tf.Session().run(tf.compat.v1.local_variables_initializer())
    """
    return variables_initializer([])


def no_op(name: str | None = None) -> Any:
    """Something to run that does nothing.

    >>> tf.Session().run(tf.compat.v1.no_op())
    """
    return variables_initializer([])


@contextlib.contextmanager
def control_dependencies(control_inputs: Any) -> Iterator[None]:
    """What is noted down inside runs after these.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     w = tf.Variable(1.0)
    ...     with tf.control_dependencies([w.assign(5.0)]):
    ...         y = tf.identity(w)
    ...     print(sess.run(y))
    5.0
    """
    graph = _graphs.default_graph()
    before = graph.before
    found = [each for each in control_inputs or () if isinstance(each, _graphs.Symbolic)]
    graph.before = [*before, *found]
    try:
        yield
    finally:
        graph.before = before


_scopes: list[str] = []
# The initializer and the dtype that scopes have for their variables, None where they have none.
_defaults: list[tuple[Any, Any]] = []


def _refuse(function: str, **given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"{function}: {name} is not covered. Leave it out, and do what it does yourself."
            )


@contextlib.contextmanager
def variable_scope(
    name_or_scope: Any,
    default_name: Any = None,
    values: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    reuse: Any = None,
    dtype: Any = None,
    use_resource: Any = None,
    constraint: Any = None,
    auxiliary_name_scope: bool = True,
) -> Iterator[Any]:
    """Prefix the names that `get_variable` knows variables by; with reuse it finds them again.

    >>> with tf.Graph().as_default():
    ...     with tf.compat.v1.variable_scope("layer"):
    ...         w = tf.compat.v1.get_variable("w", [2])
    ...     with tf.compat.v1.variable_scope("layer", reuse=True):
    ...         print(tf.compat.v1.get_variable("w") is w, w.name)
    True layer/w:0
    """
    _refuse(
        "variable_scope", regularizer=regularizer, partitioner=partitioner,
        custom_getter=custom_getter, constraint=constraint,
    )  # fmt: skip
    _scopes.append(str(default_name if name_or_scope is None else name_or_scope))
    _defaults.append((initializer, dtype))
    graph = _graphs.default_graph()
    before = graph.reuse
    graph.reuse = reuse if reuse is not None else before
    try:
        yield name_or_scope
    finally:
        _scopes.pop()
        _defaults.pop()
        graph.reuse = before


AUTO_REUSE = "auto"


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool | None = None,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: Any = None,
    custom_getter: Any = None,
    constraint: Any = None,
    synchronization: Any = None,
    aggregation: Any = None,
) -> Variable:
    """The variable of a name in the default graph, made if there is none.

    >>> with tf.Graph().as_default():
    ...     w = tf.compat.v1.get_variable("w", [2, 3])
    ...     print(w.shape)
    (2, 3)
    """
    from gradtape.tf.keras import initializers

    _refuse(
        "get_variable", regularizer=regularizer, partitioner=partitioner,
        custom_getter=custom_getter, collections=collections,
    )  # fmt: skip
    for start, kind in reversed(_defaults):
        initializer = start if initializer is None else initializer
        dtype = kind if dtype is None else dtype
    dtype = float32 if dtype is None else dtype
    graph = _graphs.default_graph()
    full = "/".join([*_scopes, name])
    known = graph.names.get(full)
    if known is not None:
        if not graph.reuse:
            raise ValueError(
                f"Variable {full} already exists. Use variable_scope(..., reuse=True) to share it."
            )
        return known
    if graph.reuse is True:
        raise ValueError(f"Variable {full} does not exist. Make it without reuse=True first.")
    if initializer is not None and not callable(initializer) and shape is None:
        start = initializer
    else:
        make = initializers.get("glorot_uniform" if initializer is None else initializer)
        if shape is None:
            raise ValueError(f"Shape of a new variable ({full}) must be given.")
        start = lambda: make(shape, dtype)  # noqa: E731
    with without_prefix():
        made = Variable(
            start, trainable=trainable is not False, name=full, dtype=None, constraint=constraint
        )
    graph.names[full] = made
    return made


@effect
def assign(
    ref: Any, value: Any, validate_shape: Any = None, use_locking: Any = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """Replace the value of a variable.

    >>> tf.compat.v1.assign(tf.Variable(1.0), 2.0).numpy().item()
    2.0
    """
    return ref.assign(value)


@effect
def assign_add(ref: Any, value: Any, use_locking: Any = None, name: str | None = None) -> Any:
    """Add to the value of a variable.

    >>> tf.compat.v1.assign_add(tf.Variable(1.0), 2.0).numpy().item()
    3.0
    """
    return ref.assign_add(value)


@effect
def assign_sub(ref: Any, value: Any, use_locking: Any = None, name: str | None = None) -> Any:
    """Subtract from the value of a variable.

    >>> tf.compat.v1.assign_sub(tf.Variable(1.0), 2.0).numpy().item()
    -1.0
    """
    return ref.assign_sub(value)


@operation
def div(x: Any, y: Any, name: str | None = None) -> Any:
    """The quotient by the rule of Python 2: that of integers is one.

    >>> tf.compat.v1.div(7, 2).numpy().item()
    3
    """
    x = convert(x, hint=getattr(y, "dtype", None))
    return FUNCTIONS["floordiv" if x.dtype.is_integer else "truediv"](x, y)


def _casting(name: str, dtype: Any) -> Any:
    @operation
    def to(x: Any, name: str | None = None) -> Any:
        from gradtape.tf.casting import cast

        return cast(x, dtype)

    to.__name__ = to.__qualname__ = name
    to.__doc__ = (
        f"The values as {dtype.name}.\n\n    >>> tf.compat.v1.{name}([1]).dtype\n"
        f"    tf.{dtype.name}\n    "
    )
    return to


to_float, to_double = _casting("to_float", float32), _casting("to_double", float64)
to_int32, to_int64 = _casting("to_int32", int32), _casting("to_int64", int64)
log = FUNCTIONS["log"]
matrix_inverse, set_random_seed = inv, set_seed


def __getattr__(name: str) -> Any:
    """TensorFlow 1 had most of tf.math, tf.linalg and tf.random at its top, too."""
    if name in OLD_ARGUMENTS:
        return renaming(_find(name), **OLD_ARGUMENTS[name])
    return _find(name)


def _find(name: str) -> Any:
    from gradtape import tf
    from gradtape.tf.compat.renamed import RENAMED
    from gradtape.tf.suggestions import missing

    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in RENAMED:
        found: Any = tf
        for part in RENAMED[name].split("."):
            found = getattr(found, part)
        return found
    if name in tf.__all__:
        return getattr(tf, name)
    for module in (tf.math, tf.linalg):
        if name in module.__all__:
            return getattr(module, name)
    raise AttributeError(missing("tf.compat.v1", name, globals()), name=name)
