"""custom_vmap: a function with its own rule for many examples at once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Generic, ParamSpec, TypeAlias, TypeVar

from gradtape.control.rule_programs import batch_programs
from gradtape.errors import ShapeError
from gradtape.ir.spec import Spec
from gradtape.ops.custom.custom import CUSTOM_BATCH
from gradtape.pytree import Structure, flatten, spread_prefix, unflatten
from gradtape.records import dataclass
from gradtape.tape.custom_derivatives import is_operand
from gradtape.tensor.tensor import Tensor, asarray
from gradtape.trace import Trace, record, state

__all__ = ["custom_vmap"]

P = ParamSpec("P")
R = TypeVar("R")
BatchRule = TypeVar("BatchRule", bound=Callable[..., object])
# For each leaf of the arguments: None for a tensor, anything else in a tuple of one.
Others: TypeAlias = tuple[tuple[object] | None, ...]


class custom_vmap(Generic[P, R]):  # noqa: N801 - a decorator
    """Give a function its own rule for `gt.vmap`.

    >>> @gt.custom_vmap
    ... def scaled(x, w):
    ...     return gt.sum(x * w)
    >>> @scaled.def_vmap
    ... def scaled_rule(axis_size, in_batched, x, w):
    ...     x_batched, w_batched = in_batched
    ...     if x_batched and not w_batched:
    ...         return x @ w, True
    ...     return gt.sum(x * w, axis=-1), True
    >>> gt.vmap(scaled, in_axes=(0, None))(np.ones((3, 2)), np.ones(2)).tolist()
    [2.0, 2.0, 2.0]

    The rule is called as `rule(axis_size, in_batched, *args)`. `in_batched` has a boolean for each
    leaf of the arguments: where it is True the examples lie along axis 0. It returns `(out,
    out_batched)`: what the function returns, for all examples, and a boolean for each leaf of it,
    or one for all. Keyword arguments arrive by position.

    Inside a loop or branch that is one op, the rule is called while the body is traced, with all
    arguments batched. Outside `vmap`, and without a rule, the function itself is called, and
    derivatives taken inside the mapped function are those of the function. Derivatives of the
    mapped function are those of the rule. A function with `custom_gradient` or `custom_jvp` may
    have a rule, and their rules may call a function that has one.
    """

    def __init__(self, f: Callable[P, R]) -> None:
        # First, because it copies attributes, those of another decorator too.
        functools.update_wrapper(self, f)
        self._f = f
        self._rule: Callable[..., object] | None = None

    def def_vmap(self, rule: BatchRule) -> BatchRule:
        """Set the rule: `rule(axis_size, in_batched, *args)` gives (out, out_batched)."""
        if not callable(rule):
            raise TypeError(f"def_vmap: the rule is {type(rule).__name__}. Give a function.")
        self._rule = rule
        return rule

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., R]:
        bound: Callable[..., R] = self
        return self if instance is None else functools.partial(bound, instance)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        trace = state.recording
        sizes = trace.sizes() if isinstance(trace, Trace) else ()
        if self._rule is None or not isinstance(trace, Trace) or not sizes:
            return self._f(*args, **kwargs)
        function: Callable[..., R] = self._f
        by_place = self._by_position(args, kwargs)
        leaves, structure = flatten(by_place)
        operands = [asarray(leaf) for leaf in leaves if is_operand(leaf)]
        nodes = [operand.enter(trace) for operand in operands]
        if not any(trace.lacks_value(node) for node in nodes):
            return function(*by_place)
        fresh = iter(operands)
        others: Others = tuple(None if is_operand(leaf) else (leaf,) for leaf in leaves)
        given = [next(fresh) if other is None else other[0] for other in others]
        start = len(trace.log)
        outputs, shape = flatten(function(*unflatten(structure, given)))
        trace.replaced.update(trace.log[start:])
        tensors = [asarray(output) for output in outputs]
        if not tensors:
            return unflatten(shape, tensors)
        name = getattr(self._f, "__name__", type(self._f).__name__)
        call = RuleCall(name, self._rule, structure, others, shape)
        if trace.is_batched:
            found = record(CUSTOM_BATCH, (*tensors, *operands), (len(tensors), call))
        else:
            found = batch_programs(trace, call, tensors, operands, sizes)
        return unflatten(shape, found)

    def _by_position(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[object, ...]:
        if not kwargs:
            return args
        bound = inspect.signature(self._f).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            names = ", ".join(bound.kwargs)
            raise TypeError(
                f"custom_vmap: keyword-only arguments ({names}) cannot be passed to the rule by "
                "position. Let the function take them by position, too."
            )
        return bound.args


@dataclass(eq=False)
class RuleCall:
    """A call of such a function, which calls its rule on the same arguments for many examples.

    It is a parameter of an op, so calls that are equal make one program.
    """

    name: str
    rule: Callable[..., object]
    structure: Structure
    others: Others
    shape: Structure

    def _key(self) -> tuple[object, ...]:
        return self.rule, self.structure, self.others, self.shape

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RuleCall) and _same(self._key(), other._key())

    def __hash__(self) -> int:
        return hash((self.rule, self.structure))

    def run(
        self, size: int, flags: Sequence[bool], handles: Sequence[Tensor], specs: Sequence[Spec]
    ) -> list[tuple[Tensor, bool]]:
        """For each output of the rule a tensor, and whether it is batched."""
        tensors, batched = iter(handles), iter(flags)
        leaves = [next(tensors) if other is None else other[0] for other in self.others]
        marks = [next(batched) if other is None else False for other in self.others]
        args = unflatten(self.structure, leaves)
        in_batched = list(unflatten(self.structure, marks))
        result = self.rule(size, in_batched, *args)
        if not isinstance(result, tuple) or len(result) != 2:
            raise ValueError(
                f"custom_vmap: the rule of {self.name} must return (out, out_batched), a tuple of "
                f"two. Got {type(result).__name__}."
            )
        outputs, shape = flatten(result[0])
        if shape != self.shape:
            raise ValueError(
                f"custom_vmap: the rule of {self.name} returned another structure than the "
                f"function: {len(outputs)} results, not {len(specs)}. Return the same nest."
            )
        kept = spread_prefix(_listed(result[1], result[0]), result[0], "custom_vmap: out_batched")
        found = [asarray(output) for output in outputs]
        for number, (one, flag, of) in enumerate(zip(found, kept, specs, strict=True)):
            expected = (size, *of.shape) if flag else of.shape
            if one.shape != expected or one.dtype != of.dtype:
                raise ShapeError(
                    f"custom_vmap: the rule of {self.name} gave {one.dtype} of shape {one.shape} "
                    f"for result {number}, expected {of.dtype} of shape {expected}."
                )
        return [(one, bool(flag)) for one, flag in zip(found, kept, strict=True)]


def _listed(marks: object, result: object) -> object:
    """Booleans as a tuple where they are a list for a tuple of results."""
    return tuple(marks) if isinstance(marks, list) and isinstance(result, tuple) else marks


def _same(first: object, second: object) -> bool:
    try:
        return bool(first == second)
    except Exception:  # arguments of any kind may refuse to be compared
        return False
