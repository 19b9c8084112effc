"""Exported programs: a traced function as plain data.

A process that gets such a program neither runs nor traces the user's Python: it plans the program
and loads its kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from gradtape.caches import remembered
from gradtape.config import KEPT_PROGRAMS
from gradtape.control.traced_bodies import BodyTrace, TracedBody, settled, trace
from gradtape.ir.node import PLACEHOLDER, Node
from gradtape.ir.op import find, module_of
from gradtape.ir.program import Program, closed
from gradtape.ir.spec import Spec, spec
from gradtape.ops.control.bodies import calls_python
from gradtape.pytree import Structure, flatten, unflatten
from gradtape.runtime.flush import compute_handle
from gradtape.runtime.plan_cache import plan_for
from gradtape.tensor import Tensor, Variable, asarray
from gradtape.trace import Handle
from gradtape.trace.value import Value


class NotExportableError(Exception):
    """A function that depends on values, draws random numbers or calls back has no program.

    >>> try:
    ...     gt.export.exported(lambda x: x if x > 0 else -x, np.array(1.0))
    ... except gt.export.NotExportableError as error:
    ...     print(str(error)[:12])
    NoValueError
    """


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
    """A program as data. Raises NotExportableError if it holds code of the user."""
    number = {node: index for index, node in enumerate(found.inputs)}
    nodes = []
    modules: dict[str, None] = {}
    for node in found.nodes:
        module = module_of(node.op)
        if not module.startswith("gradtape.") or node.op.calls_python:
            raise NotExportableError(
                f"it applies {node.op.name}, which is not an op of the library"
            )
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
        raise NotExportableError(f"an op holds the function {getattr(params, '__name__', params)}")
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
class ExportedProgram:
    """A traced function: a packed program, the values that it read outside, and its result.

    >>> program = gt.export.exported(lambda x: {"twice": 2.0 * x}, np.zeros(2))
    >>> program(np.array([1.0, 2.0]))
    {'twice': array([2., 4.])}
    """

    program: PackedProgram
    # Values of the inputs after the arguments: arrays and Python numbers that the function read.
    constants: tuple[Any, ...]
    # The specs of the variables and of the leaves of the arguments.
    inputs: tuple[Spec, ...]
    result: Structure
    fastmath: bool = False

    def __call__(self, *args: Any, variables: Sequence[Any] = ()) -> Any:
        """The result with arrays for tensors, for values of the variables if there are any."""
        program = _unpacked_once(self)
        inputs = [*variables, *flatten(args)[0], *self.constants]
        values = [_operand(x, node.spec) for x, node in zip(inputs, program.inputs, strict=True)]
        contents = plan_for(program, self.fastmath).run(values)
        pairs = zip(contents, program.outputs, strict=True)
        # Copied out of the pool of buffers, which the next run uses again.
        arrays = [np.array(Value(content, node.spec).array) for content, node in pairs]
        return unflatten(self.result, arrays)

    def compile(self) -> ExportedProgram:
        """Compile the kernels, which puts their machine code into the cache on disk."""
        plan_for(_unpacked_once(self), self.fastmath).compile()
        return self

    # Equal by identity: one object stands for one program in a process.
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


@remembered(KEPT_PROGRAMS)
def _unpacked_once(exported: ExportedProgram) -> Program:
    return unpacked(exported.program)


def _operand(x: Any, of: Spec) -> Any:
    if isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic):
        return x
    array = np.asarray(x, of.dtype)
    if array.shape != of.shape:
        raise ValueError(f"a program takes {of} here, got shape {array.shape}.")
    # Not copied: arrays from an object store are read-only.
    return Value(np.ascontiguousarray(array).reshape(of.shape), of)


def exported(
    f: Callable[..., Any],
    *args: Any,
    variables: Sequence[Variable] = (),
    assigned: Sequence[Variable] = (),
    fastmath: bool = False,
) -> ExportedProgram:
    """The program of f for arrays like these; f is called once, on tensors without values.

    The values of other variables than `variables` are part of the program. Those of `variables` are
    given at each call; f may assign those of them that `assigned` names, and reads them back. Where
    there is no program, NotExportableError says why.

    >>> w = gt.Variable(2.0)
    >>> program = gt.export.exported(lambda x: w * x, np.zeros(2), variables=[w])
    >>> program(np.array([1.0, 2.0]), variables=[np.array(10.0)]).tolist()
    [10.0, 20.0]
    """
    leaves, structure = flatten(args)
    for leaf in leaves:
        if not isinstance(leaf, (np.ndarray, Tensor)) or leaf.dtype.kind not in "biufc":
            raise NotExportableError(f"an argument is of type {type(leaf).__name__}, not an array")
    specs = [spec(tuple(x.shape), np.dtype(x.dtype)) for x in (*variables, *leaves)]

    def call(made: BodyTrace, tensors: list[Tensor]) -> tuple[list[Tensor], Structure]:
        # Variables are inputs of the program: a read of one finds its argument.
        for variable, tensor in zip(variables, tensors, strict=False):
            made.bind(variable, tensor)
        start = {id(v): made.bound(v) for v in variables}
        results, kind = flatten(f(*unflatten(structure, tensors[len(variables) :])))
        for variable in made.assigned():
            if all(variable is not v for v in assigned) and (
                made.bound(variable) is not start.get(id(variable))
            ):
                raise NotExportableError(f"it assigns the variable {variable.name}")
        for result in results:
            if not isinstance(result, (Tensor, np.ndarray, bool, int, float, complex)):
                raise NotExportableError(f"it returns a {type(result).__name__}")
        return [asarray(result) for result in results], kind

    settled()
    try:
        body, result = trace("exported", call, specs, carries=bool(variables))
    except Exception as error:
        raise NotExportableError(f"{type(error).__name__}: {error}") from error
    try:
        if body.draws:
            raise NotExportableError(
                "it draws random numbers, whose positions differ between calls"
            )
        if body.trace.made():
            raise NotExportableError("it makes variables")
        constants = tuple(_value_of(body, leaf) for leaf in body.leaves)
        found = closed((*body.arguments, *body.leaves), body.roots)
        if calls_python(found):
            raise NotExportableError("it calls a function of the user while it runs")
        return ExportedProgram(packed(found), constants, tuple(specs), result, fastmath)
    finally:
        body.give_up()


def _value_of(body: TracedBody, leaf: Node) -> Any:
    """The value of a leaf from outside the function: an array or a Python number."""
    ordinal = leaf.params[0]
    value = body.trace.leaves[ordinal]
    if value is None:
        outer = body.trace.outer
        handle = outer.hold(body.trace.sources[ordinal], Handle)
        compute_handle(handle)
        value = handle.computed
    return np.array(value.array) if isinstance(value, Value) else value
