"""vmap: a function of one example as a function of many, without a loop."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, TypeVar

import numpy as np

from gradtape.argument_checks import as_count, check_function
from gradtape.autodiff.batch import Unbatched
from gradtape.control.batched_trace import Carrier, ExampleTrace
from gradtape.control.traced_bodies import settled
from gradtape.errors import ShapeError
from gradtape.ir import Node, spec
from gradtape.ops.arrays.joining import CONCAT
from gradtape.ops.arrays.movement import moveaxis
from gradtape.ops.arrays.slicing import SLICE
from gradtape.ops.elementwise.arithmetic import identity
from gradtape.ops.families.shapes import normalize_axis
from gradtape.pytree import Structure, flatten, map_leaves, spread_prefix, unflatten
from gradtape.tensor import TensorLike, Variable
from gradtape.tensor.tensor import Tensor, asarray, evaluate
from gradtape.trace import Trace, enter, record, state

UserFunction = TypeVar("UserFunction", bound=Callable[..., object])
Mapped = TypeVar("Mapped")


def vmap(
    f: UserFunction,
    in_axes: object = 0,
    out_axes: object = 0,
    chunk_size: int | None = None,
    *,
    axis_size: int | None = None,
) -> UserFunction:
    """The function that applies `f` to every example of a batch, as one program and not a loop.

    >>> gt.vmap(lambda x, w: gt.sum(x * w), in_axes=(0, None))(np.ones((3, 2)), 2.0).tolist()
    [4.0, 4.0, 4.0]

    `in_axes` says along which axis the examples of each argument lie: an int for all arguments, or
    one for each, or nests of them that match nested arguments; None for values that all examples
    share.
    Keyword arguments are mapped over axis 0. `out_axes` says where the axis of examples goes in the
    results; None is for results that do not differ between examples. Examples are processed
    `chunk_size` at a time, by default all at once. `axis_size` is the number of examples; it is
    needed only where no argument has it, as where all that differs are random numbers:

    >>> gt.vmap(lambda: gt.random.normal(()), axis_size=3)().shape
    (3,)

    Gradients of any kind work inside `f` and around it:

    >>> x = gt.asarray([1.0, 2.0])
    >>> gt.vmap(gt.grad(lambda x: x**3))(x).tolist()
    [3.0, 12.0]
    >>> gt.grad(lambda x: gt.sum(gt.vmap(lambda a: a**3)(x)))(x).tolist()
    [3.0, 12.0]

    `f` is called once, or once for each chunk, on tensors that have a shape and a dtype but no
    value: they stand for all examples. A read of one (`if`, `float`, `.numpy()`, `print`) raises
    `NoValueError`: choose with `gt.where` instead. Tensors and variables from outside are shared by
    all examples. A variable may be assigned only a value that all examples share, and is assigned
    once.

    Random numbers are those that a loop over the examples would draw, one example after the other:
    each gets its own, and the generator ends where the loop would have left it. A generator made
    inside `f`, or `seed=`, starts anew for every example, so all get the same numbers.
    """
    check_function("vmap", f)
    if chunk_size is not None:
        chunk_size = as_count("vmap: chunk_size", chunk_size, least=1)
    if axis_size is not None:
        axis_size = as_count("vmap: axis_size", axis_size)

    @functools.wraps(f)
    def mapped(*args: object, **kwargs: object) -> object:
        call = MappedCall(f, args, kwargs, in_axes, size=axis_size)
        if chunk_size is None or call.size <= chunk_size:
            results, structure = call.run(call.mapped, call.size, out_axes)
            return unflatten(structure, results)
        return call.run_in_chunks(chunk_size, out_axes)

    return mapped  # type: ignore[return-value]  # a function with the signature of `f`


def vectorized_map(
    fn: Callable[[Any], Mapped],
    elems: object,
    fallback_to_while_loop: bool = True,
    warn: bool = True,
) -> Mapped:
    """Apply a function to every example along axis 0 of a tensor or a nest of them.

    >>> gt.vectorized_map(lambda x: x * x, gt.asarray([1.0, 2.0])).tolist()
    [1.0, 4.0]
    >>> gt.vectorized_map(lambda p: p["a"] + p["b"], {"a": np.arange(3), "b": np.ones(1)}).tolist()
    [1.0, 2.0, 3.0]

    It is `vmap(fn)(elems)`, but for elements whose axis has length 1: all examples share them. The
    last two arguments are TensorFlow's: there is no loop to fall back to, and nothing to warn of.
    """
    tensors = map_leaves(asarray, elems)
    leaves, structure = flatten(tensors)
    sizes = {leaf.shape[0] for leaf in leaves if leaf.ndim}
    shared = [leaf.ndim > 0 and leaf.shape[0] == 1 and len(sizes) > 1 for leaf in leaves]
    given = [leaf[0] if flag else leaf for leaf, flag in zip(leaves, shared, strict=True)]
    axes = [None if flag else 0 for flag in shared]
    call = MappedCall(fn, (unflatten(structure, given),), {}, 0, axes, name="vectorized_map")
    results, shape = call.run(call.mapped, call.size, 0)
    return unflatten(shape, results)


class MappedCall:
    """One call of a mapped function: its arguments with the axis of examples in front."""

    def __init__(
        self,
        f: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        in_axes: object,
        axes: list[int | None] | None = None,
        name: str = "vmap",
        size: int | None = None,
    ) -> None:
        self.f = f
        self.name = name
        self.leaves, self.structure = flatten((args, kwargs))
        if axes is None:
            axes = spread_prefix(_for_arguments(in_axes, args), args, "vmap: in_axes")
            axes += [0] * (len(self.leaves) - len(axes))
        self.positions = [at for at, axis in enumerate(axes) if axis is not None]
        if not self.positions and size is None:
            raise ValueError(_nothing_mapped(name, bool(self.leaves)))
        # A shared array is made a tensor, so that a tensor without a value can index it.
        shared = [at for at, axis in enumerate(axes) if axis is None]
        for at in shared:
            leaf = self.leaves[at]
            if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biufc":
                self.leaves[at] = asarray(leaf)
        tensors = [self._tensor(at) for at in self.positions]
        wanted = [axis for axis in axes if axis is not None]
        found = [
            _axis(self, at, tensor, axis)
            for at, tensor, axis in zip(self.positions, tensors, wanted, strict=True)
        ]
        lengths = [tensor.shape[axis] for tensor, axis in zip(tensors, found, strict=True)]
        self.size = lengths[0] if size is None else size
        if len({*lengths, self.size}) > 1:
            listed = ", ".join(
                f"{self.describe(at)} has {n} (axis {axis} of shape {tensor.shape})"
                for at, n, axis, tensor in zip(self.positions, lengths, found, tensors, strict=True)
            )
            if size is not None:
                listed += f", axis_size is {size}"
            way = "pass None in in_axes" if name == "vmap" else "of length 1"
            raise ShapeError(
                f"{name}: the mapped axes differ in length: {listed}. Map axes of one length, or "
                f"{way} for what all examples share."
            )
        self.mapped = [
            moveaxis(tensor, axis, 0) if axis else tensor
            for tensor, axis in zip(tensors, found, strict=True)
        ]

    def _tensor(self, position: int) -> Tensor:
        try:
            return asarray(self.leaves[position])
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"{self.name}: {self.describe(position)} cannot be mapped: {error}"
            ) from None

    def describe(self, position: int) -> str:
        """The argument that a leaf belongs to, with the name of its parameter if there is one."""
        args, kwargs = self.structure.children
        counts = [child.count for child in args.children]
        for number, count in enumerate(counts):
            if position < count:
                part = f" (part {position})" if count > 1 else ""
                return f"argument {number}{_parameter_name(self.f, number)}{part}"
            position -= count
        for keyword, child in zip(kwargs.context, kwargs.children, strict=True):
            if position < child.count:
                return f"keyword argument {keyword}"
            position -= child.count
        return "an argument"

    def remedy(self, position: int) -> str:
        """The advice of the error for an argument without an axis of examples."""
        args = self.structure.children[0]
        if self.name != "vmap":
            return "Use it from outside the function, or give it an axis of length 1."
        if position >= args.count:
            return "Pass it by position with None in in_axes, or bind it with functools.partial."
        if type(self.leaves[position]) in (int, float, complex, bool) and args.count > len(
            args.children
        ):
            return "Make an array of a list of numbers, or pass None in in_axes for what is shared."
        return "Pass None in in_axes for what all examples share."

    def run(
        self, mapped: Sequence[Tensor], size: int, out_axes: object
    ) -> tuple[list[Tensor], Structure]:
        """Trace the function on one example, and record it for all."""
        settled()
        # Entering an operand may flush and close the recording: then all are entered again.
        while True:
            outer = state.recording
            nodes = [tensor.enter(outer) for tensor in mapped]
            if state.recording is outer:
                break
        trace = ExampleTrace(outer, self.name, size)
        try:
            with trace.entered():
                ones = [trace.add_unknown(spec(n.shape[1:], n.dtype)) for n in nodes]
                carrier = Carrier(trace, size, dict(zip(ones, mapped, strict=True)))
                leaves = list(self.leaves)
                for position, one, tensor in zip(self.positions, ones, mapped, strict=True):
                    leaves[position] = trace.hold(one, tensor.result_class)
                args, kwargs = unflatten(self.structure, leaves)
                result = self.f(*args, **kwargs)
                outputs, structure = flatten(result)
                roots = [_root(trace, output) for output in outputs]
                graph = carrier.batch(roots)
                wanted = spread_prefix(out_axes, result, f"{self.name}: out_axes")
                axes = [
                    self._out_axis(root, found, axis)
                    for root, found, axis in zip(roots, graph.results, wanted, strict=True)
                ]
                steps = carrier.steps(graph, tuple(axes))
            kinds = [getattr(output, "result_class", Tensor) for output in outputs]
            return carrier.record(steps, kinds), structure
        finally:
            trace.end()

    def _out_axis(self, root: Node, found: Node | Unbatched, axis: int | None) -> int | None:
        if axis is None:
            if not isinstance(found, Unbatched):
                raise ValueError(
                    f"{self.name}: out_axes is None for a result of {root.spec} that differs "
                    "between examples. Name an axis, or reduce over the examples outside."
                )
            return None
        return normalize_axis(f"{self.name}: out_axes", axis, root.ndim + 1)

    def run_in_chunks(self, chunk: int, out_axes: object) -> object:
        """The results of all examples, computed in chunks of `chunk` examples."""
        rows: list[list[Tensor]] = []
        for start in range(0, self.size, chunk):
            length = min(chunk, self.size - start)
            parts = [_examples(tensor, start, length) for tensor in self.mapped]
            results, structure = self.run(parts, length, map_leaves(lambda _: 0, out_axes))
            if not state.tapes and state.recording.outer is None:
                # One plan for each chunk, the same for all: memory and compiling are bounded.
                evaluate(results)
            rows.append(results)
        wanted = spread_prefix(out_axes, unflatten(structure, rows[0]), f"{self.name}: out_axes")
        joined = [
            column[0] if axis is None else _joined(column, axis)
            for column, axis in zip(zip(*rows, strict=True), wanted, strict=True)
        ]
        return unflatten(structure, joined)


def _nothing_mapped(name: str, given: bool) -> str:
    if not given:
        return f"{name}: nothing is mapped: there is no argument. " + (
            "Pass axis_size, the number of examples." if name == "vmap" else "Pass a tensor."
        )
    return (
        f"{name}: nothing is mapped: in_axes is None for every argument. "
        "Name an axis of at least one, or pass axis_size."
    )


def _for_arguments(in_axes: object, args: tuple[object, ...]) -> object:
    """Axes for each argument; a list is a tuple here."""
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if in_axes is not None and not isinstance(in_axes, (Integral, tuple)):
        raise TypeError(
            f"vmap: in_axes: {in_axes!r} is not an int, None, or a tuple with one entry for each "
            "argument. Write (axes,) for a function of one argument."
        )
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise ValueError(
            f"vmap: in_axes has {len(in_axes)} entries and the function was called with "
            f"{len(args)} positional arguments. Give one for each."
        )
    return in_axes


def _axis(call: MappedCall, position: int, tensor: Tensor, axis: int) -> int:
    if not tensor.ndim:
        raise ShapeError(
            f"{call.name}: {call.describe(position)} is 0-d and has no axis {axis} of examples. "
            f"{call.remedy(position)}"
        )
    if -tensor.ndim <= axis < tensor.ndim:
        return axis % tensor.ndim
    return normalize_axis(f"{call.name}: {call.describe(position)}", axis, tensor.ndim)


def _parameter_name(f: Callable[..., object], number: int) -> str:
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return ""
    for parameter in parameters[number : number + 1]:
        if parameter.kind is not parameter.VAR_POSITIONAL:
            return f" ({parameter.name})"
    return ""


def _root(trace: Trace, output: TensorLike) -> Node:
    """The node of a leaf that the function returned."""
    if isinstance(output, (Tensor, Variable)):
        return output.enter(trace)
    return enter(trace, asarray(output))


def _examples(tensor: Tensor, start: int, length: int) -> Tensor:
    """Some examples; their start is an operand of the op, so that all chunks are one program."""
    rest = tensor.shape[1:]
    starts = (None, *(0,) * len(rest))
    shape = (length, *rest)
    return record(SLICE, (tensor, start), (starts, shape, (1,) * len(shape), shape))


def _joined(parts: Sequence[Tensor], axis: int) -> Tensor:
    whole = record(CONCAT, tuple(parts), (0,))
    place = normalize_axis("vmap: out_axes", axis, whole.ndim)
    return identity(moveaxis(whole, 0, place)) if place else whole
