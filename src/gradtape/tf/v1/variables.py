"""Variables of TensorFlow 1: scopes, `get_variable`, initializers and assignments as ops."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gradtape.libraries import check_exports
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.dispatch import effect
from gradtape.tf.base.dtypes import float32
from gradtape.tf.base.scopes import without_prefix
from gradtape.tf.base.types import DTypeLike, Name, ShapeLike, TensorLike
from gradtape.tf.keras import initializers
from gradtape.tf.programs.variable import Variable
from gradtape.tf.v1.graphs import default_graph, get_default_graph, local
from gradtape.tf.v1.symbolic import Symbolic

__all__ = [
    "AUTO_REUSE",
    "assign",
    "assign_add",
    "assign_sub",
    "get_variable",
    "global_variables",
    "global_variables_initializer",
    "initialize_all_variables",
    "local_variables_initializer",
    "no_op",
    "trainable_variables",
    "variable_scope",
    "variables_initializer",
]


def global_variables(scope: str | None = None) -> list[Variable]:
    """The variables made while a graph is built.

    >>> with tf.Graph().as_default():
    ...     w = tf.Variable(1.0, name="w")
    ...     print([v.name for v in tf.compat.v1.global_variables()])
    ['w:0']
    """
    return [v for v in get_default_graph().variables if scope is None or v.name.startswith(scope)]


def trainable_variables(scope: str | None = None) -> list[Variable]:
    """The trainable variables made while a graph is built.

    >>> with tf.Graph().as_default():
    ...     w = tf.Variable(1.0, trainable=False)
    ...     print(tf.compat.v1.trainable_variables())
    []
    """
    return [variable for variable in global_variables(scope) if variable.trainable]


def variables_initializer(var_list: Iterable[Variable], name: str = "init") -> Symbolic:
    """A call to run that gives variables their initial values again.

    >>> with tf.Graph().as_default():
    ...     w = tf.Variable(1.0)
    ...     with tf.Session() as sess:
    ...         _ = sess.run(w.assign(5.0))
    ...         sess.run(tf.compat.v1.variables_initializer([w]))
    ...         print(sess.run(w))
    1.0
    """
    return Symbolic(_initialize, (), {"wanted": _Listed(list(var_list))}, True)


class _Listed:
    """Holds variables, so that a run passes them on instead of their values."""

    def __init__(self, variables: list[Variable]) -> None:
        self.variables = variables


def _initialize(wanted: _Listed) -> None:
    for variable in wanted.variables:
        start = variable.initial_value
        start = start() if callable(start) else start
        variable.assign(convert(local.run.values_of(start), variable.dtype))


def global_variables_initializer() -> Symbolic:
    """A call to run that initialises all variables made so far.

    >>> with tf.Graph().as_default():
    ...     w = tf.Variable(1.0)
    ...     with tf.Session() as sess:
    ...         sess.run(tf.compat.v1.global_variables_initializer())
    """
    return variables_initializer(global_variables())


initialize_all_variables = global_variables_initializer


def local_variables_initializer() -> Symbolic:
    """A call to run that does nothing: there are no local variables.

    >>> tf.Session().run(tf.compat.v1.local_variables_initializer())
    """
    return variables_initializer([])


def no_op(name: Name = None) -> Symbolic:
    """A call to run that does nothing.

    >>> tf.Session().run(tf.compat.v1.no_op())
    """
    return variables_initializer([])


_scopes: list[str] = []
# The initializer and the dtype of each open scope; None if the scope does not set one.
_defaults: list[tuple[Any, DTypeLike | None]] = []


def _refuse(function: str, **arguments: object) -> None:
    for name, value in arguments.items():
        if value is not None:
            raise ValueError(
                f"{function}: {name} is not covered. Leave it out, and write its effect in code."
            )


@contextlib.contextmanager
def variable_scope(
    name_or_scope: object,
    default_name: Name = None,
    values: object = None,
    initializer: Any = None,
    regularizer: object = None,
    caching_device: object = None,
    partitioner: object = None,
    custom_getter: object = None,
    reuse: bool | str | None = None,
    dtype: DTypeLike | None = None,
    use_resource: object = None,
    constraint: object = None,
    auxiliary_name_scope: bool = True,
) -> Iterator[object]:
    """Prefix the names of `get_variable`; with reuse=True it returns existing variables.

    >>> with tf.Graph().as_default():
    ...     with tf.compat.v1.variable_scope("layer"):
    ...         w = tf.compat.v1.get_variable("w", [2])
    ...     with tf.compat.v1.variable_scope("layer", reuse=True):
    ...         print(tf.compat.v1.get_variable("w") is w, w.name)
    True layer/w:0
    """
    _refuse(
        "variable_scope",
        regularizer=regularizer,
        partitioner=partitioner,
        custom_getter=custom_getter,
        constraint=constraint,
    )
    _scopes.append(str(default_name if name_or_scope is None else name_or_scope))
    _defaults.append((initializer, dtype))
    graph = default_graph()
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
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    initializer: Any = None,
    regularizer: object = None,
    trainable: bool | None = None,
    collections: object = None,
    caching_device: object = None,
    partitioner: object = None,
    validate_shape: bool = True,
    use_resource: object = None,
    custom_getter: object = None,
    constraint: Callable[..., Any] | None = None,
    synchronization: object = None,
    aggregation: object = None,
) -> Variable:
    """The variable of a name in the default graph, made if there is none.

    >>> with tf.Graph().as_default():
    ...     w = tf.compat.v1.get_variable("w", [2, 3])
    ...     print(w.shape)
    (2, 3)
    """
    _refuse(
        "get_variable",
        regularizer=regularizer,
        partitioner=partitioner,
        custom_getter=custom_getter,
        collections=collections,
    )
    for start, kind in reversed(_defaults):
        initializer = start if initializer is None else initializer
        dtype = kind if dtype is None else dtype
    dtype = float32 if dtype is None else dtype
    graph = default_graph()
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
    ref: Variable,
    value: TensorLike,
    validate_shape: bool | None = None,
    use_locking: bool | None = None,
    name: Name = None,
) -> Variable:
    """Replace the value of a variable.

    >>> tf.compat.v1.assign(tf.Variable(1.0), 2.0).numpy().item()
    2.0
    """
    return ref.assign(value)


@effect
def assign_add(
    ref: Variable, value: TensorLike, use_locking: bool | None = None, name: Name = None
) -> Variable:
    """Add to the value of a variable.

    >>> tf.compat.v1.assign_add(tf.Variable(1.0), 2.0).numpy().item()
    3.0
    """
    return ref.assign_add(value)


@effect
def assign_sub(
    ref: Variable, value: TensorLike, use_locking: bool | None = None, name: Name = None
) -> Variable:
    """Subtract from the value of a variable.

    >>> tf.compat.v1.assign_sub(tf.Variable(1.0), 2.0).numpy().item()
    -1.0
    """
    return ref.assign_sub(value)


check_exports(globals(), __all__)
