"""Programs that travel: a function traced once by the driver, as plain data that workers run.

A worker that is given a program neither runs nor traces the user's Python: it plans the program and
loads its kernels. The driver compiles them first, so that they lie in the cache on disk before
workers look for them; `kernel_files` brings them to machines that do not share the folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from gradtape import Tensor, asarray
from gradtape.caches import remembered
from gradtape.config import KEPT_PROGRAMS
from gradtape.control.traced_bodies import TracedBody, settled, trace
from gradtape.ir.node import PLACEHOLDER, Node
from gradtape.ir.op import find, module_of
from gradtape.ir.program import Program, closed
from gradtape.ir.spec import Spec, spec
from gradtape.ops.control.bodies import calls_python
from gradtape.pytree import Structure, flatten, unflatten
from gradtape.runtime.flush import compute_handle
from gradtape.runtime.plan_cache import plan_for
from gradtape.trace import Handle
from gradtape.trace.value import Value


class NotAProgramError(Exception):
    """Says why a function cannot travel as a program; the function itself travels then."""


@dataclass(frozen=True)
class PackedProgram:
    """A program as plain data: ops by name, nodes by number."""

    inputs: tuple[Spec, ...]
    # The modules that declare the ops: a worker imports them first.
    modules: tuple[str, ...]
    # Name of the op, numbers of the inputs, params, spec.
    nodes: tuple[tuple[str, tuple[int, ...], tuple[Any, ...], Any], ...]
    outputs: tuple[int, ...]


def packed(found: Program) -> PackedProgram:
    """A program as data. Raises NotAProgramError if it holds code of the user."""
    number = {node: index for index, node in enumerate(found.inputs)}
    nodes = []
    modules: dict[str, None] = {}
    for node in found.nodes:
        module = module_of(node.op)
        if not module.startswith("gradtape.") or node.op.calls_python:
            raise NotAProgramError(f"it applies {node.op.name}, which is not an op of the library")
        modules[module] = None
        number[node] = len(number)
        parents = tuple(number[parent] for parent in node.inputs)
        nodes.append((node.op.name, parents, _packed_params(node.params), node.spec))
    outputs = tuple(number[node] for node in found.outputs)
    specs = tuple(node.spec for node in found.inputs)
    return PackedProgram(specs, tuple(modules), tuple(nodes), outputs)


def _packed_params(params: Any) -> Any:
    if isinstance(params, Program):
        return packed(params)
    if type(params) is tuple:
        return tuple(_packed_params(each) for each in params)
    if callable(params) and not isinstance(params, (type, np.dtype)):
        raise NotAProgramError(f"an op holds the function {getattr(params, '__name__', params)}")
    return params


def unpacked(data: PackedProgram) -> Program:
    """The program that was packed, over placeholders of its own."""
    for module in data.modules:
        import_module(module)
    made: list[Node] = [
        Node(PLACEHOLDER, (), (position,), of) for position, of in enumerate(data.inputs)
    ]
    for name, parents, params, of in data.nodes:
        inputs = tuple(made[parent] for parent in parents)
        made.append(Node(find(name), inputs, _unpacked_params(params), of))
    inputs, nodes = tuple(made[: len(data.inputs)]), tuple(made[len(data.inputs) :])
    return Program(inputs, nodes, tuple(made[position] for position in data.outputs))


def _unpacked_params(params: Any) -> Any:
    if isinstance(params, PackedProgram):
        body = unpacked(params)
        # Bodies are interned, so that equal loops are one node.
        return closed(body.inputs, body.outputs)
    if type(params) is tuple:
        return tuple(_unpacked_params(each) for each in params)
    return params


@dataclass(frozen=True)
class TravellingProgram:
    """A traced function: a packed program, the values that it read outside, and its result."""

    program: PackedProgram
    # Values of the inputs after the arguments: arrays and Python numbers that the function read.
    constants: tuple[Any, ...]
    arguments: tuple[Spec, ...]
    # The structure of the result, or whatever the tracer noted about it.
    result: Any
    fastmath: bool = False

    def __call__(self, leaves: Sequence[Any]) -> list[np.ndarray]:
        """The leaves of the result as arrays, for the leaves of the arguments."""
        return run(_unpacked_once(self), [*leaves, *self.constants], self.fastmath)

    # Equal by identity: one object stands for one program in a process.
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


@remembered(KEPT_PROGRAMS)
def _unpacked_once(travelling: TravellingProgram) -> Program:
    return unpacked(travelling.program)


def run(found: Program, inputs: Sequence[Any], fastmath: bool = False) -> list[np.ndarray]:
    """Run a program on arrays and numbers."""
    values = [_operand(x, node.spec) for x, node in zip(inputs, found.inputs, strict=True)]
    contents = plan_for(found, fastmath).run(values)
    pairs = zip(contents, found.outputs, strict=True)
    return [Value(content, node.spec).array for content, node in pairs]


def _operand(x: Any, of: Spec) -> Any:
    if isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic):
        return x
    array = np.asarray(x, of.dtype)
    if array.shape != of.shape:
        raise ValueError(f"a program takes {of} here, got shape {array.shape}.")
    # Not copied: arrays from the object store are read-only.
    return Value(np.ascontiguousarray(array).reshape(of.shape), of)


def compile_ahead(travelling: TravellingProgram) -> None:
    """Compile the kernels of a program, which puts their machine code into the cache on disk."""
    plan_for(_unpacked_once(travelling), travelling.fastmath).compile()


def trace_leaves(
    name: str,
    function: Callable[[Any, list[Tensor]], tuple[list[Any], Any]],
    specs: tuple[Spec, ...],
    carries: bool = False,
    fastmath: bool = False,
) -> TravellingProgram:
    """The program of a function of tensors without values, called once here.

    `function` gets the trace and the tensors, and returns the leaves and the structure of its
    result. Raises NotAProgramError if it looks at values, draws random numbers or calls back.
    """
    settled()
    try:
        body, result = trace(name, function, specs, carries=carries)
    except Exception as error:
        raise NotAProgramError(f"{type(error).__name__}: {error}") from error
    try:
        if body.draws:
            raise NotAProgramError("it draws random numbers, whose positions differ between calls")
        if body.trace.made():
            raise NotAProgramError("it makes variables")
        constants = tuple(_value_of(body, leaf) for leaf in body.leaves)
        found = closed((*body.arguments, *body.leaves), body.roots)
        if calls_python(found):
            raise NotAProgramError("it calls a function of the user while it runs")
        return TravellingProgram(packed(found), constants, specs, result, fastmath)
    finally:
        body.give_up()


def _value_of(body: TracedBody, leaf: Node) -> Any:
    """What a leaf from outside the function holds: an array or a Python number."""
    ordinal = leaf.params[0]
    value = body.trace.leaves[ordinal]
    if value is None:
        outer = body.trace.outer
        handle = outer.hold(body.trace.sources[ordinal], Handle)
        compute_handle(handle)
        value = handle.computed
    return np.array(value.array) if isinstance(value, Value) else value


def travelling(
    name: str, f: Callable[..., Any], args: tuple[Any, ...], fastmath: bool = False
) -> TravellingProgram:
    """The program of f for arguments like these. Raises NotAProgramError where there is none."""
    leaves, structure = flatten(args)
    specs = []
    for leaf in leaves:
        if not isinstance(leaf, (np.ndarray, Tensor)) or leaf.dtype.kind not in "biufc":
            raise NotAProgramError(f"an argument is of type {type(leaf).__name__}, not an array")
        specs.append(spec(tuple(leaf.shape), np.dtype(leaf.dtype)))

    def call(_: Any, tensors: list[Tensor]) -> tuple[list[Any], Structure]:
        results, kind = flatten(f(*unflatten(structure, tensors)))
        for result in results:
            if not isinstance(result, (Tensor, np.ndarray, bool, int, float, complex)):
                raise NotAProgramError(f"it returns a {type(result).__name__}")
        return [asarray(result) for result in results], kind

    return trace_leaves(name, call, tuple(specs), fastmath=fastmath)
