"""Decides whether a call is executed at once or deferred: v1's side of base/dispatch.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradtape.tf.base.dispatch import EFFECT, PLAIN, graphs
from gradtape.tf.base.tensor import adopt
from gradtape.tf.programs.variable import Variable
from gradtape.tf.v1.graphs import local
from gradtape.tf.v1.symbolic import Run, Symbolic, probe, running


def _mentions(nest: object, building: bool) -> bool:
    """Whether arguments contain a deferred call or, while a graph is built, a variable."""
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


def take(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], kind: str
) -> Any:
    """Execute a call, or defer it if an argument has no value yet."""
    if local.run is not None:
        return adopt(function(*local.run.values_of(args), **local.run.values_of(kwargs)))
    building = local.building is not None
    if (building and kind is not PLAIN) or _mentions((args, kwargs), building):
        return _unpacked(Symbolic(function, args, kwargs, kind is EFFECT))
    return adopt(function(*args, **kwargs))


def _unpacked(call: Symbolic) -> Any:
    """Split a call that returns a list or a tuple into calls that pick its elements."""
    result = probe(call, 2)
    if not isinstance(result, (list, tuple)):
        return call
    absent = getattr(call.function, "__name__", "") in ("gradients", "hessians")
    parts: list[Any] = [
        # An unconnected gradient is None in every run, so it is None here, too.
        None if absent and part is None else _unpacked(Symbolic(_picked, (call, number), {}))
        for number, part in enumerate(result)
    ]
    return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)


def _picked(whole: Any, number: int) -> Any:
    return whole[number]


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


def install() -> None:
    """Let base/dispatch.py pass calls to this module while graphs are in use."""
    graphs.take, graphs.settle, graphs.register = take, settle, register
    graphs.is_running = lambda: local.run is not None
