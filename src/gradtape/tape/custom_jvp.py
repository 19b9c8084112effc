"""custom_jvp: forward mode written by hand, and reverse mode by transposing it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from gradtape.autodiff.modes import forward, reverse
from gradtape.autodiff.python_rules import PythonRules, as_nodes, inside
from gradtape.ir import Node, Rows, constant, placeholder
from gradtape.ops.arrays.creation import zeros_like
from gradtape.pytree import flatten, unflatten
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

__all__ = ["custom_jvp"]

P = ParamSpec("P")
R = TypeVar("R")
Rule = TypeVar("Rule", bound=Callable[..., object])


class custom_jvp(CustomFunction[P, R]):  # noqa: N801 - a decorator
    """Give a function its own forward derivative; reverse mode follows by transposition.

    >>> @gt.custom_jvp
    ... def f(x):
    ...     return gt.sin(x)
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return f(x), 10.0 * t
    >>> float(gt.grad(f)(1.0))
    10.0

    The rule gets the arguments by place, also those that were passed by keyword; those that
    `nondiff_argnums` names, and the instance if it is a method of three parameters, come before
    `primals` and `tangents`. By variables that the function reads besides, the derivative is that
    of what it computes.
    """

    def __init__(self, f: Callable[P, R], nondiff_argnums: int | Sequence[int] = ()) -> None:
        super().__init__(f)
        self._rule: Callable[..., object] | None = None
        self._apart = frozenset(
            [nondiff_argnums] if isinstance(nondiff_argnums, int) else nondiff_argnums
        )

    def defjvp(self, rule: Rule) -> Rule:
        """Set the rule: `rule(primals, tangents)` gives (value, tangent of the value)."""
        self._rule = rule
        return rule

    def defjvps(self, *rules: Callable[..., Any] | None) -> None:
        """Set one rule for each argument: `rule(tangent, value, *arguments)` gives a tangent.

        >>> f = gt.custom_jvp(lambda x, y: gt.sin(x) * y)
        >>> f.defjvps(lambda t, value, x, y: gt.cos(x) * t * y, None)
        >>> [float(slope) for slope in gt.grad(f, (0, 1))(0.0, 2.0)]
        [2.0, 0.0]

        None stands for a derivative of zero.
        """

        def rule(primals: Any, tangents: Any, **kwargs: Any) -> tuple[object, object]:
            value: Any = self(*primals, **kwargs)
            check_count("arguments", len(primals), list(rules))
            pairs = zip(rules, tangents, strict=True)
            parts = [each(t, value, *primals) for each, t in pairs if each is not None]
            return value, sum(parts[1:], parts[0]) if parts else zeros_like(value)

        self._rule = rule

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._rule is None:
            name = getattr(self._f, "__name__", "f")
            raise ValueError(f"custom_jvp: {name} has no rule. Define one with @{name}.defjvp.")
        by_place, by_name = placed("custom_jvp", self._f, args, kwargs)
        apart = self._apart or _left_to_rule(self._rule, by_place)
        first = [x for place, x in enumerate(by_place) if place in apart]
        arguments = ArgumentTree([x for place, x in enumerate(by_place) if place not in apart])
        fixed, given = iter(first), iter(arguments.filled(arguments.operands))
        every = [next(fixed if place in apart else given) for place in range(len(by_place))]
        result, variables = self._called(every, by_name, by_place)
        outputs, shape = flatten(result)
        called = functools.partial(self._rule, *first)
        rule = _TangentRule(called, len(outputs), arguments, by_name)
        sources: list[Tensor | Variable] = [*arguments.operands, *variables]
        return unflatten(shape, with_rule(self._key, outputs, sources, rule))


def _left_to_rule(rule: Callable[..., object], args: tuple[object, ...]) -> frozenset[int]:
    """Position 0 if the rule is a method of three parameters: the instance comes first."""
    if not args or is_operand(args[0]):
        return frozenset()
    try:
        parameters = inspect.signature(rule).parameters.values()
    except (TypeError, ValueError):
        return frozenset()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    placed = [p for p in parameters if p.kind in kinds and p.default is inspect.Parameter.empty]
    return frozenset([0]) if len(placed) == 3 else frozenset()


class _TangentRule:
    """Forward mode by the user's rule; reverse mode by transposing it."""

    def __init__(
        self,
        rule: Callable[..., object],
        outputs: int,
        arguments: ArgumentTree,
        kwargs: dict[str, Any],
    ) -> None:
        self.rule = rule
        self.outputs = outputs
        self.arguments = arguments
        self.kwargs = kwargs

    def push(
        self, rules: PythonRules, node: Node, tangents: Sequence[Node | None]
    ) -> list[Node | None]:
        """Tangents of the outputs of a `custom_derivative` node.

        By arguments they are those of the rule; by variables that the function reads besides, those
        of the graph that it recorded.
        """
        last = self.outputs + self.arguments.others.count(None)
        primals, variables = node.inputs[self.outputs : last], node.inputs[last:]
        given, moving = tangents[self.outputs : last], tangents[last:]
        slopes: list[Node | None] = [None] * self.outputs
        by_variables = any(tangent is not None for tangent in moving)
        if not by_variables or any(tangent is not None for tangent in given):
            slopes = self._by_rule(rules, primals, given, node.inputs[: self.outputs])
        if by_variables:
            outputs = node.inputs[: self.outputs]
            more = forward(outputs, variables, moving, set(primals), rules)
            pairs = zip(slopes, more, strict=True)
            slopes = [b if a is None else a if b is None else a + b for a, b in pairs]
        return slopes

    def _by_rule(
        self,
        rules: PythonRules,
        primals: Sequence[Node],
        tangents: Sequence[Node | None],
        outputs: Sequence[Node],
    ) -> list[Node | None]:
        directions = [
            constant(0, primal.spec) if tangent is None else tangent
            for primal, tangent in zip(primals, tangents, strict=True)
        ]
        recording = rules.recording
        with inside(recording):
            result = self.rule(
                *(
                    tuple(self.arguments.filled([recording.hold(node, Tensor) for node in nodes]))
                    for nodes in (primals, directions)
                ),
                **self.kwargs,
            )
            if not isinstance(result, tuple) or len(result) != 2:
                raise ValueError(
                    "custom_jvp: the rule must return (value, tangent), a tuple of two."
                )
            found = flatten(result[1])[0]
            check_count("outputs", self.outputs, found)
            slopes = as_nodes(recording, found)
        return fitted("custom_jvp: tangent", "value", slopes, outputs)

    def pull(
        self, rules: PythonRules, node: Node, cotangents: tuple[Node, ...]
    ) -> list[Node | Rows | None]:
        """Cotangents of its inputs: `push` on unknown tangents, transposed by reverse mode."""
        primals = node.inputs[self.outputs :]
        tangents = [placeholder(primal.spec) for primal in primals]
        pushed = self.push(rules, node, [*[None] * self.outputs, *tangents])
        return [None] * self.outputs + reverse(pushed, cotangents, tangents)
