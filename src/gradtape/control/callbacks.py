"""Real Python inside any program: numpy_function, py_function and pure_callback."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gradtape.argument_checks import check_function
from gradtape.dtypes import as_dtype
from gradtape.ir import Op, Spec, spec
from gradtape.ir.node import WRAPPERS, Node, apply, pick
from gradtape.ops.custom.callback import (
    METHODS,
    NUMPY_FUNCTION,
    PURE_CALLBACK,
    EachExample,
    Outcome,
    callback_batch,
    callback_op,
    checked,
    happens,
    isolated,
    journal,
)
from gradtape.ops.elementwise.unary import sin
from gradtape.ops.families.samples import Sample
from gradtape.pytree import Structure, flatten, flatten_up_to, unflatten
from gradtape.records import dataclass
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tensor import Tensor, TensorLike, asarray, from_value
from gradtape.trace import host_value, record

if TYPE_CHECKING:
    from gradtape.dtypes import DTypeLike

    # The declared result of a callback: a dtype, a shape with a dtype, or a list of either.
    SpecLike: TypeAlias = DTypeLike | Spec | Tensor | tuple[Sequence[int], DTypeLike]
    Specs: TypeAlias = SpecLike | list[SpecLike]


@dataclass(frozen=True)
class PythonPullback:
    """A callback's gradient as another callback, so that all orders of derivatives work alike."""

    function: Any
    outputs: int
    index: int
    gradient: Any = None

    def __call__(self, *operands: Any) -> Any:
        cut = len(operands) - self.outputs
        arguments, dys = operands[:cut], operands[cut:]
        if self.gradient is not None:
            slopes = self.gradient(*arguments, *dys)
            listed = slopes if isinstance(slopes, (tuple, list)) else (slopes,)
            if len(listed) != cut:
                raise ValueError(
                    f"py_function: gradient returned {len(listed)} cotangents for {cut} arguments. "
                    "Return one for each, None for what has no derivative."
                )
            slope = listed[self.index]
            return np.zeros(arguments[self.index].shape) if slope is None else slope
        with GradientTape() as tape:
            sources = [argument.copy() for argument in arguments]
            tape.watch(sources[self.index])
            results = self.function(*sources)
        listed = list(results) if isinstance(results, (tuple, list)) else [results]
        return tape.gradient(listed, sources[self.index], list(dys), unconnected_gradients="zero")


WRAPPERS.add(PythonPullback)


def _tensor_kernel(*arrays: Any, function: Any, specs: tuple[Spec, ...], gradient: Any) -> Any:
    results = happens(function, lambda: on_tensors(function, arrays))
    name = "the gradient of py_function" if isinstance(function, PythonPullback) else "py_function"
    return checked(name, results, specs)


def on_tensors(function: Any, arrays: Any) -> Any:
    """Call a function of tensors on arrays; return its results as a tuple of arrays."""
    results = function(*[from_value(host_value(array)) for array in arrays])
    listed = results if isinstance(results, (tuple, list)) else (results,)
    return tuple(r.numpy() if hasattr(r, "numpy") else r for r in listed)


def _tensor_vjp(
    index: int, g: Any, y: Any, inputs: tuple[Node, ...], function: Any, specs: Any, gradient: Any
) -> Node:
    pullback = PythonPullback(function, len(specs), index, gradient)
    node = apply(PY_FUNCTION, (*inputs, *g), (pullback, (inputs[index].spec,), None))
    return pick(node, 0)


def _batch(
    inputs: tuple[Node, ...],
    batched: tuple[bool, ...],
    y: Node,
    function: Any,
    specs: tuple[Spec, ...],
    gradient: Any,
) -> Node:
    """Call the function, or its gradient, once for each example."""
    if gradient is not None:
        # The gradient also takes a cotangent of each result, and returns one of each operand.
        flags = (*batched, *(True,) * len(specs))
        slopes = tuple(node.spec for node in y.inputs)
        gradient = EachExample(gradient, flags, slopes, batched)
    return callback_batch(inputs, batched, y, function, specs, gradient=gradient)


PY_FUNCTION = callback_op(
    "py_function",
    "gradient",
    numpy=_tensor_kernel,
    vjp=_tensor_vjp,
    batch=_batch,
    opaque=True,
    samples=lambda: [
        Sample(
            (np.array([1.0, 0.5]),),
            {"function": sin, "specs": (spec((2,), np.dtype("float64")),), "gradient": None},
        )
    ],
)


def numpy_function(f: Callable[..., object], args: Sequence[TensorLike], spec: Specs) -> Any:
    """Call `f` on NumPy arrays as part of the program; it has no derivative and says so.

    `spec` describes the result of `f`: a dtype, a (shape, dtype) pair, or a list of either.

    >>> gt.numpy_function(np.cumsum, [gt.asarray([1.0, 2.0])], ((2,), gt.float64)).tolist()
    [1.0, 3.0]
    """
    return _called("numpy_function", f, args, spec, NUMPY_FUNCTION, lambda arrays: f(*arrays))


def py_function(
    f: Callable[..., object],
    args: Sequence[TensorLike],
    spec: Specs,
    gradient: Callable[..., object] | None = None,
) -> Any:
    """Call `f` on tensors as part of the program; derivatives pass through the ops it records.

    With `gradient`, `gradient(*args, *dys)` gives the cotangents of the arguments instead.

    >>> x = gt.Variable(2.0)
    >>> with gt.GradientTape() as tape:
    ...     y = gt.py_function(lambda x: x * x, [x], ((), gt.float64))
    >>> float(tape.gradient(y, x))
    4.0
    """
    if gradient is not None:
        check_function("py_function: gradient", gradient)
    return _called(
        "py_function", f, args, spec, PY_FUNCTION, lambda arrays: on_tensors(f, arrays), gradient
    )


def _called(
    name: str,
    f: Callable[..., object],
    args: Sequence[TensorLike],
    spec: Specs,
    op: Op,
    call: Callable[[list[np.ndarray]], object],
    *more: object,
) -> Any:
    """Record the call of a function whose results are as `spec` says."""
    check_function(f"{name}: f", f)
    if not isinstance(args, (list, tuple)):
        raise TypeError(
            f"{name}: args is {type(args).__name__}, not a list of arguments. Pass [x], even if "
            "there is only one."
        )
    operands = tuple(asarray(argument) for argument in args)
    known: list[Outcome] | None = None

    def trial() -> object:
        nonlocal known
        arrays = [np.array(operand.numpy()) for operand in operands]
        found = isolated(lambda: call(arrays))
        # The call may have effects, so it is not repeated to compute the value.
        known = [Outcome(f, found, None)]
        return found

    specs, several = _specs(name, spec, trial)
    with contextlib.nullcontext() if known is None else journal.use(journal.written, known):
        results = record(op, operands, (f, specs, *more))
    return list(results) if several else results[0]


def pure_callback(
    callback: Callable[..., object],
    result_specs: object,
    *args: object,
    vmap_method: str = "sequential",
    **kwargs: object,
) -> Any:
    """Call a function of NumPy arrays that depends on its arguments only, as part of the program.

    `result_specs` describes its result: a (shape, dtype) pair, anything with a shape and a dtype,
    or a nest of them. Arguments may be nests of tensors.

    >>> x = gt.asarray([3.0, 1.0, 2.0])
    >>> gt.pure_callback(np.sort, x, x).tolist()
    [1.0, 2.0, 3.0]

    Because it is pure, calls with the same arguments may be shared and unused ones left out.
    `vmap_method` says how `gt.vmap` calls it:

    - `"sequential"`: one call for each example;
    - `"expand_dims"`: one call for all, with an axis of examples in front of every argument, of
      length 1 where they share it;
    - `"broadcast_all"`: one call for all, every argument repeated for each example.

    It has no derivative and says so; give it one with `custom_jvp` or `custom_gradient`:

    >>> @gt.custom_gradient
    ... def cube(x):
    ...     return gt.pure_callback(lambda x: x**3, x, x), lambda dy: dy * 3.0 * x * x
    >>> float(gt.grad(cube)(2.0))
    12.0
    """
    check_function("pure_callback: callback", callback)
    if vmap_method not in METHODS:
        raise ValueError(
            f"pure_callback: vmap_method {vmap_method!r} is unknown. Use one of "
            f"{', '.join(map(repr, METHODS))}."
        )
    specs, shape = _spec_nest(result_specs)
    leaves, structure = flatten((args, kwargs))
    function = Packed(callback, structure, shape)
    operands = tuple(asarray(leaf) for leaf in leaves)
    if not operands:
        # Nothing to wait for, and nothing that could differ between examples.
        operands = (asarray(0.0),)
        function = Packed(lambda _: callback(), flatten(((0,), {}))[1], shape)
    return unflatten(shape, record(PURE_CALLBACK, operands, (function, specs, vmap_method)))


@dataclass(frozen=True)
class Packed:
    """A function of nests as a function of their leaves."""

    function: Callable[..., object]
    structure: Structure
    result: Structure

    def __call__(self, *leaves: np.ndarray) -> tuple[object, ...]:
        args, kwargs = unflatten(self.structure, leaves)
        return tuple(
            flatten_up_to(self.result, self.function(*args, **kwargs), "pure_callback: the result")
        )


WRAPPERS.add(Packed)


def _spec_nest(given: object) -> tuple[tuple[Spec, ...], Structure]:
    """Specs of the results, and the structure of the nest that they are in."""
    found: list[Spec] = []

    def replaced(item: object) -> object:
        known = _pair(item)
        if known is not None:
            found.append(known)
            return 0
        if isinstance(item, dict):
            return {key: replaced(value) for key, value in item.items()}
        if isinstance(item, (list, tuple)):
            parts = [replaced(value) for value in item]
            kind: Callable[..., object] = type(item)
            return kind(*parts) if hasattr(item, "_fields") else kind(parts)
        raise TypeError(
            f"pure_callback: {item!r} has no shape and dtype. Give a pair of them for each result."
        )

    _, structure = flatten(replaced(given))
    return tuple(found), structure


def _pair(item: Any) -> Spec | None:
    """The spec of one result; None for a nest of specs."""
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], (tuple, list)):
        with contextlib.suppress(TypeError, ValueError):
            return spec(tuple(operator.index(n) for n in item[0]), as_dtype(item[1]))
        return None
    if isinstance(item, (np.dtype, type, tuple, list, dict)):
        return None
    return _known(item)


def _specs(name: str, given: Specs, trial: Callable[[], object]) -> tuple[tuple[Spec, ...], bool]:
    """Specs of the results, and whether they are a list. A bare dtype takes a trial call."""
    several = isinstance(given, list)
    items = given if isinstance(given, list) else [given]
    known = [_known(item) for item in items]
    if None not in known:
        return tuple(one for one in known if one is not None), several
    results = trial()
    listed = results if isinstance(results, (tuple, list)) else (results,)
    if len(listed) != len(items):
        raise ValueError(
            f"{name}: the function returned {len(listed)} values, {len(items)} were declared. "
            "Declare a list of as many."
        )
    return tuple(
        spec(np.shape(r), as_dtype(item))  # type: ignore[arg-type]  # the rest is a bare dtype
        for r, item in zip(listed, items, strict=True)
    ), several


def _known(item: Any) -> Spec | None:
    if isinstance(item, Spec):
        return item
    if isinstance(item, tuple):
        shape, dtype = item
        return spec(tuple(shape), as_dtype(dtype))
    shape, dtype = getattr(item, "shape", None), getattr(item, "dtype", None)
    if dtype is None or isinstance(item, (np.dtype, type)):
        return None
    return spec(tuple(shape or ()), as_dtype(dtype))
