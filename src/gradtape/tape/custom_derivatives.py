"""Derivatives written by hand: custom_gradient, grad_pass_through and custom_jvp.

A function with such a derivative is recorded as it is, and its results are passed through one
`custom_derivative` op, whose derivative is the rule: see `with_rule`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from gradtape.argument_checks import check_function
from gradtape.autodiff.modes import forward, reverse
from gradtape.autodiff.python_rules import PythonRules, as_nodes, inside
from gradtape.ir import Node, Rows, constant, placeholder
from gradtape.ops.arrays.creation import zeros_like
from gradtape.ops.custom.custom import CUSTOM
from gradtape.ops.elementwise.complexes import real
from gradtape.ops.families.casting import cast
from gradtape.pytree import flatten, flatten_up_to, unflatten
from gradtape.tensor import Tensor, TensorLike, Variable, asarray
from gradtape.trace import record
from gradtape.trace.recording import state

__all__ = ["custom_gradient", "custom_jvp", "grad_pass_through"]

P = ParamSpec("P")
R = TypeVar("R")


class CustomRule(Protocol):
    """A derivative written in Python: the rule of a `custom_derivative` node of a recording."""

    def pull(
        self, rules: PythonRules, node: Node, cotangents: tuple[Node, ...], /
    ) -> Sequence[Node | Rows | None]:
        """Cotangents of the inputs of the node."""

    def push(
        self, rules: PythonRules, node: Node, tangents: Sequence[Node | None], /
    ) -> Sequence[Node | Rows | None]:
        """Tangents of its outputs."""


class _VariableReads:
    """A stand-in for a tape that notes which variables a function reads."""

    def __init__(self) -> None:
        self.variables: dict[int, Variable] = {}

    def note_read(self, variable: Variable, node: Node) -> None:
        if variable.trainable:
            self.variables.setdefault(variable.number, variable)


class ArgumentTree:
    """Arguments whose tensors a rule differentiates by; other leaves, as integers, stay."""

    def __init__(self, tree: object) -> None:
        leaves, self.structure = flatten(tree)
        self.operands = [asarray(leaf) for leaf in leaves if is_operand(leaf)]
        # For each leaf: None for a tensor, anything else in a tuple of one.
        self.others = [None if is_operand(leaf) else (leaf,) for leaf in leaves]

    def filled(self, tensors: Sequence[Tensor]) -> Any:
        """The arguments with these tensors."""
        fresh = iter(tensors)
        leaves = [next(fresh) if other is None else other[0] for other in self.others]
        return unflatten(self.structure, leaves)


class CustomFunction(Generic[P, R]):
    """A function whose results get a derivative written by hand, as a decorator."""

    def __init__(self, f: Callable[P, Any]) -> None:
        # First, because it copies attributes, those of another decorator too.
        functools.update_wrapper(self, f)
        self._f = f
        # The part of the function that belongs to the structure of a program: its code. A closure
        # made anew in every step has the same code, so its steps find one plan.
        self._key = getattr(f, "__code__", f)

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., R]:
        bound: Callable[..., R] = self
        return self if instance is None else functools.partial(bound, instance)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        raise NotImplementedError

    def _called(
        self, given: Sequence[Any], by_name: dict[str, Any], passed: object
    ) -> tuple[Any, list[Variable]]:
        """The result of the function, and the variables that it read and that were not passed."""
        reads = _VariableReads()
        state.tapes.append(reads)
        try:
            result: Any = self._f(*given, **by_name)
        finally:
            state.tapes.remove(reads)
        numbers = {leaf.number for leaf in flatten(passed)[0] if isinstance(leaf, Variable)}
        return result, [v for v in reads.variables.values() if v.number not in numbers]


def fitted(name: str, of: str, slopes: Sequence[Node | None], nodes: Sequence[Node]) -> list[Any]:
    """The derivatives that a rule gave for nodes, in their dtypes; raises for other shapes."""
    found = list(slopes)
    for position, (slope, node) in enumerate(zip(slopes, nodes, strict=True)):
        if slope is not None and slope.shape != node.shape:
            raise ValueError(
                f"{name} {position} has shape {slope.shape}, its {of} {node.shape}. Return one of "
                "the same shape."
            )
        if isinstance(slope, Node) and node.spec.inexact and slope.dtype != node.dtype:
            found[position] = cast(real(slope) if node.dtype.kind == "f" else slope, node.dtype)
    return found


def with_rule(
    key: object,
    outputs: Sequence[TensorLike],
    inputs: Sequence[Tensor | Variable],
    rule: CustomRule,
) -> list[Tensor]:
    """The outputs again, whose derivatives by the inputs are those of `rule`."""
    if not outputs:
        return []
    handles = record(CUSTOM, (*map(asarray, outputs), *inputs), (len(outputs), key))
    node = handles[0].node
    # In the eager mode the results are computed now. Without a tape that closes the recording: no
    # derivative of them exists.
    if node is not None:
        state.recording.rules[node.inputs[0]] = rule
    return list(handles)


def placed(
    name: str, f: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call by position, as rules take them, and those only allowed by keyword.

    A rule gives derivatives by position, so an argument that can only be passed by keyword must not
    be one that a tape follows.
    """
    if not kwargs:
        return args, kwargs
    try:
        bound = inspect.signature(f).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return args, kwargs  # the call itself raises
    parameters, given = bound.signature.parameters.values(), bound.arguments
    by_place = [p for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    while by_place and by_place[-1].name not in given:
        by_place.pop()
    # Those left out before one that was given have their defaults, or there is no place for it.
    given.update({p.name: p.default for p in by_place if p.name not in given})
    rest = bound.kwargs
    for keyword, value in rest.items():
        for leaf in flatten(value)[0]:
            tracked = isinstance(leaf, Tensor) and leaf.is_tracked()
            if tracked or (isinstance(leaf, Variable) and leaf.trainable):
                raise TypeError(
                    f"{name}: {keyword} can only be passed by keyword, and the rule gives "
                    "derivatives by place. Let the function take it by position, too, or pass "
                    "gt.stop_gradient of it."
                )
    return bound.args, rest


def is_operand(leaf: object) -> bool:
    """Whether a leaf of the arguments is a tensor or becomes one; integers stay as they are."""
    return isinstance(leaf, (Tensor, Variable, float)) or hasattr(leaf, "__array__")


def check_count(what: str, expected: int, got: Sequence[object]) -> None:
    """Raise a ValueError unless a rule gave one derivative for each argument or output."""
    if len(got) != expected:
        raise ValueError(
            f"custom derivative: expected {expected} derivatives, one for each of the {what}, "
            f"got {len(got)}."
        )


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
