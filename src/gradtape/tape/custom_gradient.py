"""custom_gradient and grad_pass_through: reverse mode written by hand."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from gradtape.argument_checks import check_function
from gradtape.autodiff.modes import reverse
from gradtape.autodiff.python_rules import PythonRules, as_nodes, inside
from gradtape.ir import Node, Rows, placeholder
from gradtape.pytree import flatten, flatten_up_to, unflatten
from gradtape.tape.custom_rules import (
    ArgumentTree,
    CustomFunction,
    check_count,
    fitted,
    is_operand,
    placed,
    with_rule,
)
from gradtape.tensor import Tensor, Variable

__all__ = ["custom_gradient", "grad_pass_through"]

P = ParamSpec("P")
R = TypeVar("R")


class custom_gradient(CustomFunction[P, R]):  # noqa: N801 - a decorator
    """Give a function its own gradient: it returns (y, grad_fn).

    >>> @gt.custom_gradient
    ... def log1pexp(x):
    ...     e = gt.exp(x)
    ...     return gt.log(1.0 + e), lambda dy: dy * (1.0 - 1.0 / (1.0 + e))
    >>> float(gt.grad(log1pexp)(100.0))
    1.0

    If the function reads variables, grad_fn takes `variables=` and returns (grads, their grads).
    """

    def __init__(self, f: Callable[P, tuple[R, Callable[..., object]]]) -> None:
        super().__init__(f)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        by_place, by_name = placed("custom_gradient", self._f, args, kwargs)
        arguments = ArgumentTree(by_place)
        given = arguments.filled(arguments.operands)
        result, variables = self._called(given, by_name, by_place)
        if not isinstance(result, tuple) or len(result) != 2 or not callable(result[1]):
            raise ValueError(
                "custom_gradient: the function must return (y, grad_fn), a value and a function. "
                f"Got {type(result).__name__}."
            )
        y, grad_fn = result
        outputs, shape = flatten(y)
        rule = _GradientRule(grad_fn, len(outputs), arguments, variables)
        sources: list[Tensor | Variable] = [*arguments.operands, *variables]
        return unflatten(shape, with_rule(self._key, outputs, sources, rule))


class _GradientRule:
    """Reverse mode by the user's grad_fn; forward mode by transposing it."""

    def __init__(
        self,
        grad_fn: Callable[..., Any],
        outputs: int,
        arguments: ArgumentTree,
        variables: Sequence[Variable],
    ) -> None:
        self.grad_fn = grad_fn
        self.outputs = outputs
        self.structure = arguments.structure
        # For each leaf of the arguments, whether it is a tensor.
        self.differentiable = [other is None for other in arguments.others]
        self.variables = list(variables)
        if self.variables and not _takes_variables(grad_fn):
            names = ", ".join(v.name for v in self.variables)
            raise TypeError(
                f"custom_gradient: the function reads variables ({names}), so grad_fn must accept "
                "variables=. Write def grad_fn(*dys, variables=None): return grads, variable_grads."
            )

    def _slopes(self, result: object) -> list[Any]:
        """One derivative for each tensor among the arguments, from a flat list or their nests."""
        flags, count = self.differentiable, sum(self.differentiable)
        given = _listed(result)
        flat = all(one is None or is_operand(one) for one in given)
        if flat and len(given) == len(flags):
            return [slope for slope, flag in zip(given, flags, strict=True) if flag]
        if not flat or len(given) != count:
            remaining = iter(flags)
            marks = [[next(remaining) for _ in range(c.count)] for c in self.structure.children]
            own = [(c, m) for c, m in zip(self.structure.children, marks, strict=True) if any(m)]
            if len(own) == 1 and isinstance(result, dict):
                given = [result]
            if len(given) == len(own) and any(child.kind is not None for child, _ in own):
                parts = zip(own, given, strict=True)
                given = [
                    slope
                    for (child, mark), part in parts
                    for slope, flag in zip(
                        flatten_up_to(child, part, "custom_gradient: grad_fn"), mark, strict=True
                    )
                    if flag
                ]
        check_count("arguments", count, given)
        return given

    def pull(
        self, rules: PythonRules, node: Node, cotangents: tuple[Node, ...]
    ) -> list[Node | None]:
        """Cotangents of the inputs of a `custom_derivative` node."""
        recording = rules.recording
        with inside(recording):
            dys = [recording.hold(cotangent, Tensor) for cotangent in cotangents]
            if self.variables:
                result = self.grad_fn(*dys, variables=self.variables)
                if not isinstance(result, tuple) or len(result) != 2:
                    raise ValueError(
                        "custom_gradient: with variables, grad_fn returns (grads, variable_grads)."
                    )
                slopes, extra = self._slopes(result[0]), _listed(result[1])
            else:
                slopes, extra = self._slopes(self.grad_fn(*dys)), []
            check_count("variables", len(self.variables), extra)
            found = as_nodes(recording, [*slopes, *extra])
        sources = node.inputs[self.outputs :]
        return [None] * self.outputs + fitted(
            "custom_gradient: gradient", "argument", found, sources
        )

    def push(
        self, rules: PythonRules, node: Node, tangents: Sequence[Node | None]
    ) -> list[Node | Rows | None]:
        """Tangents of its outputs: `pull` on unknown cotangents, transposed by reverse mode."""
        cotangents = tuple(placeholder(of) for of in node.spec)
        return reverse(self.pull(rules, node, cotangents), tangents, cotangents)


def grad_pass_through(f: Callable[P, R]) -> Callable[P, R]:
    """The same function, with the derivative of the identity.

    >>> float(gt.grad(gt.grad_pass_through(gt.round))(1.4))
    1.0
    """
    check_function("grad_pass_through", f)

    @functools.wraps(f)
    def through(*args: P.args, **kwargs: P.kwargs) -> R:
        @custom_gradient
        def passing(*operands: Any) -> tuple[R, Callable[..., object]]:
            return f(*operands, **kwargs), lambda *dys: dys

        return passing(*args)

    return through


def _takes_variables(grad_fn: Callable[..., object]) -> bool:
    try:
        parameters = inspect.signature(grad_fn).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.name == "variables" or p.kind is p.VAR_KEYWORD for p in parameters)


def _listed(result: object) -> list[Any]:
    return list(result) if isinstance(result, (list, tuple)) else [result]
