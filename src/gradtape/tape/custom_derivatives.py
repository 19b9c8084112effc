"""Derivatives written by hand: custom_gradient, custom_jvp, grad_pass_through."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gradtape.derive.python_rules import PythonRules, as_nodes, inside
from gradtape.graph.node import Node, constant, placeholder
from gradtape.ops.arrays.creation import zeros_like
from gradtape.ops.custom.custom import CUSTOM
from gradtape.ops.elementwise.complexes import real
from gradtape.ops.families.casting import cast
from gradtape.pytree import Structure, flatten, flatten_up_to, unflatten
from gradtape.recording.record import record
from gradtape.recording.recording import Recording
from gradtape.recording.thread_state import state
from gradtape.tensor.tensor import Tensor, asarray
from gradtape.tensor.variable import Variable
from gradtape.transforms.forward import forward
from gradtape.transforms.reverse import reverse

__all__ = ["custom_gradient", "custom_jvp", "grad_pass_through"]


class _Reads:
    """Stands among the entered tapes to learn which variables a function reads."""

    def __init__(self) -> None:
        self.variables: dict[int, Variable] = {}

    def note_read(self, variable: Variable, node: Node) -> None:
        if variable.trainable:
            self.variables.setdefault(variable.number, variable)

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Note the reads while this is entered."""
        state.tapes.append(self)
        try:
            yield
        finally:
            state.tapes.remove(self)

    def besides(self, leaves: Sequence[Any]) -> list[Variable]:
        """The variables that were read, without those among the arguments."""
        passed = {leaf.number for leaf in leaves if isinstance(leaf, Variable)}
        return [v for v in self.variables.values() if v.number not in passed]


def key_of(f: Any) -> Any:
    """What programs know a function by: closures made anew each time are the same to them."""
    return getattr(f, "__code__", f)


def wrapped(key: Any, outputs: Sequence[Any], inputs: Sequence[Any], rule: Any) -> list[Any]:
    """The outputs again, with `rule` in place of the derivative of how they were computed."""
    if not outputs:
        return []
    recording = state.recording
    handles = record(CUSTOM, (*outputs, *inputs), (len(outputs), key))
    state.recording.rules[handles[0].node.inputs[0]] = rule
    assert recording is state.recording
    return list(handles)


def placed(
    name: str, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A call with keyword arguments in the place of their parameters, as rules see arguments.

    What can only be passed by keyword must not be something that a derivative is asked by.
    """
    if not kwargs:
        return args, kwargs
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return args, kwargs
    found, rest = list(args), dict(kwargs)
    places = [p for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    taken = len(args) - sum(p.kind is inspect.Parameter.POSITIONAL_ONLY for p in parameters)
    missing: list[Any] = []
    for parameter in places[max(taken, 0) :]:
        if parameter.name in rest:
            found += [*missing, rest.pop(parameter.name)]
            missing = []
        elif parameter.default is inspect.Parameter.empty:
            break  # Python will say so
        else:
            missing.append(parameter.default)
    for keyword, value in rest.items():
        for leaf in flatten(value)[0]:
            tracked = isinstance(leaf, Tensor) and leaf.is_tracked()
            if tracked or (isinstance(leaf, Variable) and leaf.trainable):
                raise TypeError(
                    f"{name}: {keyword} can only be passed by keyword, and the rule gives "
                    "derivatives by place. Let the function take it by position, too, or pass "
                    "gt.stop_gradient of it."
                )
    return tuple(found), rest


def is_operand(leaf: Any) -> bool:
    return isinstance(leaf, (Tensor, Variable, float)) or hasattr(leaf, "__array__")


def check_callable(name: str, f: Any) -> None:
    if not callable(f):
        raise TypeError(f"{name}: {f!r} is not callable. Decorate a function or a method.")


class custom_gradient:  # noqa: N801 - a decorator
    """Give a function its own gradient: it returns (y, grad_fn).

    >>> @gt.custom_gradient
    ... def log1pexp(x):
    ...     e = gt.exp(x)
    ...     return gt.log(1.0 + e), lambda dy: dy * (1.0 - 1.0 / (1.0 + e))
    >>> float(gt.grad(log1pexp)(100.0))
    1.0

    If the function reads variables, grad_fn takes `variables=` and returns (grads, their grads).
    """

    def __init__(self, f: Callable[..., Any]) -> None:
        check_callable("custom_gradient", f)
        # First, as it copies attributes: of another decorator, too.
        functools.update_wrapper(self, f)
        self._f = f
        self._key = key_of(f)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = placed("custom_gradient", self._f, args, kwargs)
        leaves, structure = flatten(args)
        operands = [asarray(leaf) for leaf in leaves if is_operand(leaf)]
        fresh = iter(operands)
        given = unflatten(structure, [next(fresh) if is_operand(leaf) else leaf for leaf in leaves])
        reads = _Reads()
        with reads.noted():
            result = self._f(*given, **kwargs)
        if not isinstance(result, tuple) or len(result) != 2 or not callable(result[1]):
            raise ValueError(
                "custom_gradient: the function must return (y, grad_fn), a value and a function. "
                f"Got {type(result).__name__}."
            )
        y, grad_fn = result
        outputs, shape = flatten(y)
        variables = reads.besides(leaves)
        differentiable = [is_operand(leaf) for leaf in leaves]
        rule = _GradientRule(grad_fn, len(outputs), structure, differentiable, variables)
        sources = [*operands, *variables]
        return unflatten(shape, wrapped(self._key, [asarray(o) for o in outputs], sources, rule))


class _GradientRule:
    """Reverse mode by the user's grad_fn; forward mode by transposing it."""

    def __init__(
        self,
        grad_fn: Any,
        outputs: int,
        structure: Structure,
        differentiable: Sequence[bool],
        variables: Sequence[Variable],
    ) -> None:
        self.grad_fn = grad_fn
        self.outputs = outputs
        self.structure = structure
        # For each leaf of the arguments, whether it is a tensor.
        self.differentiable = list(differentiable)
        self.variables = list(variables)
        if self.variables and not _takes_variables(grad_fn):
            names = ", ".join(v.name for v in self.variables)
            raise TypeError(
                f"custom_gradient: the function reads variables ({names}), so grad_fn must accept "
                "variables=. Write def grad_fn(*dys, variables=None): return grads, variable_grads."
            )

    def _slopes(self, result: Any) -> list[Any]:
        """One derivative for each tensor among the arguments, which may be given as their nests."""
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
        _check_count("arguments", count, given)
        return given

    def pull(self, recording: Recording, node: Node, cotangents: tuple[Any, ...]) -> list[Any]:
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
            _check_count("variables", len(self.variables), extra)
            found = as_nodes(recording, [*slopes, *extra])
        for position, (slope, source) in enumerate(
            zip(found, node.inputs[self.outputs :], strict=True)
        ):
            if slope is not None and slope.shape != source.shape:
                raise ValueError(
                    f"custom_gradient: gradient {position} has shape {slope.shape}, its argument "
                    f"{source.shape}. Return one of the same shape."
                )
            if isinstance(slope, Node) and source.spec.inexact:
                found[position] = _like(slope, source)
        return [None] * self.outputs + found

    def push(self, recording: Recording, node: Node, tangents: Sequence[Any]) -> tuple[Any, ...]:
        cotangents = tuple(placeholder(of) for of in node.spec)
        pulled = self.pull(recording, node, cotangents)
        pairs = [
            (p, t) for p, t in zip(pulled, tangents, strict=True) if p is not None and t is not None
        ]
        found = reverse([p for p, _ in pairs], [t for _, t in pairs], cotangents)
        return tuple(found)


class custom_jvp:  # noqa: N801 - a decorator
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

    def __init__(self, f: Callable[..., Any], nondiff_argnums: int | Sequence[int] = ()) -> None:
        check_callable("custom_jvp", f)
        functools.update_wrapper(self, f)
        self._f = f
        self._key = key_of(f)
        self._rule: Callable[..., Any] | None = None
        self._apart = frozenset(
            [nondiff_argnums] if isinstance(nondiff_argnums, int) else nondiff_argnums
        )

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
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

        def rule(primals: tuple[Any, ...], tangents: tuple[Any, ...], **kwargs: Any) -> Any:
            value = self(*primals, **kwargs)
            _check_count("arguments", len(primals), list(rules))
            pairs = zip(rules, tangents, strict=True)
            parts = [each(t, value, *primals) for each, t in pairs if each is not None]
            return value, sum(parts[1:], parts[0]) if parts else zeros_like(value)

        self._rule = rule

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._rule is None:
            name = getattr(self._f, "__name__", "f")
            raise ValueError(f"custom_jvp: {name} has no rule. Define one with @{name}.defjvp.")
        args, kwargs = placed("custom_jvp", self._f, args, kwargs)
        apart = self._apart or _left_to_rule(self._rule, args)
        first = [x for place, x in enumerate(args) if place in apart]
        leaves, structure = flatten([x for place, x in enumerate(args) if place not in apart])
        operands = [asarray(leaf) for leaf in leaves if is_operand(leaf)]
        fresh, fixed = iter(operands), iter(first)
        given = iter(
            unflatten(structure, [next(fresh) if is_operand(leaf) else leaf for leaf in leaves])
        )
        every = [next(fixed if place in apart else given) for place in range(len(args))]
        reads = _Reads()
        with reads.noted():
            outputs, shape = flatten(self._f(*every, **kwargs))
        others = [None if is_operand(leaf) else (leaf,) for leaf in leaves]
        rule = _TangentRule(
            functools.partial(self._rule, *first), len(outputs), others, structure, kwargs
        )
        sources = [*operands, *reads.besides(flatten(args)[0])]
        return unflatten(shape, wrapped(self._key, [asarray(o) for o in outputs], sources, rule))


def _left_to_rule(rule: Callable[..., Any], args: tuple[Any, ...]) -> frozenset[int]:
    """The place of an instance that a rule written as a method takes before all others."""
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
        self, rule: Any, outputs: int, others: list[Any], structure: Any, kwargs: Any
    ) -> None:
        self.rule = rule
        self.outputs = outputs
        # Arguments that are no tensors, each in a tuple; None in the place of tensors.
        self.others = others
        self.structure = structure
        self.kwargs = kwargs

    def push(self, recording: Recording, node: Node, tangents: Sequence[Any]) -> tuple[Any, ...]:
        last = self.outputs + sum(other is None for other in self.others)
        primals, variables = node.inputs[self.outputs : last], node.inputs[last:]
        given = tangents[self.outputs : last]
        moving = [
            (v, t) for v, t in zip(variables, tangents[last:], strict=True) if t is not None
        ]  # fmt: skip
        slopes: list[Any] = [None] * self.outputs
        if not moving or any(tangent is not None for tangent in given):
            slopes = self._by_rule(recording, primals, given, node.inputs[: self.outputs])
        if moving:
            rules = PythonRules(recording)
            more = forward(
                node.inputs[: self.outputs], [v for v, _ in moving], [t for _, t in moving],
                set(primals), rules.push,
            )  # fmt: skip
            pairs = zip(slopes, more, strict=True)
            slopes = [b if a is None else a if b is None else a + b for a, b in pairs]
        return tuple(slopes)

    def _by_rule(
        self,
        recording: Recording,
        primals: Sequence[Node],
        tangents: Sequence[Any],
        outputs: Sequence[Node],
    ) -> list[Any]:
        directions = [
            constant(0, primal.spec) if tangent is None else tangent
            for primal, tangent in zip(primals, tangents, strict=True)
        ]
        with inside(recording):
            result = self.rule(
                self._arguments(recording, primals),
                self._arguments(recording, directions),
                **self.kwargs,
            )
            if not isinstance(result, tuple) or len(result) != 2:
                raise ValueError(
                    "custom_jvp: the rule must return (value, tangent), a tuple of two."
                )
            found = flatten(result[1])[0]
            _check_count("outputs", self.outputs, found)
            slopes = as_nodes(recording, found)
        for position, (slope, value) in enumerate(zip(slopes, outputs, strict=True)):
            if slope is not None and slope.shape != value.shape:
                raise ValueError(
                    f"custom_jvp: tangent {position} has shape {slope.shape}, its value "
                    f"{value.shape}. Return one of the same shape."
                )
            if slope is not None and value.spec.inexact:
                slopes[position] = _like(slope, value)
        return slopes

    def _arguments(self, recording: Recording, nodes: Sequence[Node]) -> tuple[Any, ...]:
        handles = iter([recording.hold(node, Tensor) for node in nodes])
        leaves = [next(handles) if other is None else other[0] for other in self.others]
        return tuple(unflatten(self.structure, leaves))

    def pull(self, recording: Recording, node: Node, cotangents: tuple[Any, ...]) -> list[Any]:
        primals = node.inputs[self.outputs :]
        tangents = [placeholder(primal.spec) for primal in primals]
        pushed = self.push(recording, node, [None] * self.outputs + tangents)
        pairs = [(p, c) for p, c in zip(pushed, cotangents, strict=True) if p is not None]
        found = reverse([p for p, _ in pairs], [c for _, c in pairs], tangents)
        return [None] * self.outputs + list(found)


def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, with the derivative of the identity.

    >>> float(gt.grad(gt.grad_pass_through(gt.round))(1.4))
    1.0
    """

    @functools.wraps(f)
    def through(*args: Any, **kwargs: Any) -> Any:
        @custom_gradient
        def passing(*operands: Any) -> Any:
            return f(*operands, **kwargs), lambda *dys: dys

        return passing(*args)

    return through


def _like(slope: Node, value: Node) -> Node:
    """A derivative in the dtype of what it belongs to: computed more precisely, it is rounded."""
    if slope.dtype == value.dtype:
        return slope
    return cast(real(slope) if value.dtype.kind == "f" else slope, value.dtype)


def _takes_variables(grad_fn: Any) -> bool:
    try:
        parameters = inspect.signature(grad_fn).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.name == "variables" or p.kind is p.VAR_KEYWORD for p in parameters)


def _listed(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _check_count(what: str, expected: int, got: list[Any]) -> None:
    if len(got) != expected:
        raise ValueError(
            f"custom derivative: expected {expected} derivatives, one for each of the {what}, "
            f"got {len(got)}."
        )
