"""Lower routines: the steps of all their nodes, with loads and stores, as register code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradtape.caches import remembered
from gradtape.compiler.emit.register_code import RegisterCode, Stored
from gradtape.compiler.lower.arguments import Entry, Lowered
from gradtape.compiler.lower.fused_loops import fusible
from gradtape.compiler.passes.routine_op import body_of
from gradtape.compiler.passes.scalar_steps import (
    Apply,
    Computed,
    Literal,
    Load,
    Ordinals,
    Step,
    Template,
    code_of,
    is_known,
    template_of,
)
from gradtape.compiler.passes.units import Registers
from gradtape.ir import OPERATORS, PICK, Node, Op, constant_value, placeholder, spec
from gradtape.ops.families.strides import Access, row_major

_new = tuple.__new__


def lower_routines(
    unit: Registers,
    access: Mapping[Node, Access],
    constants: set[Node],
    beside: Mapping[Node, tuple[Node, int]],
) -> Lowered:
    """The register code of a unit, with its arguments.

    `beside` has arrays that always lie at a fixed distance behind another: they need no address.
    """
    steps = _Steps(access, constants, beside)
    return steps.lowered(unit.outputs, steps.results(unit.routine))


class _Steps:
    """The steps of register code while they are found. Equal steps are one."""

    def __init__(
        self,
        access: Mapping[Node, Access],
        constants: set[Node],
        beside: Mapping[Node, tuple[Node, int]],
    ) -> None:
        self._beside = beside
        self._access = access
        self._constants = constants
        self._steps: list[Step] = []
        self._number: dict[Step, int] = {}
        self._literals: set[int] = set()
        # Arrays that are read.
        self._arrays: dict[Node, int] = {}

    def results(self, routine: Node) -> list[Ordinals]:
        """Add the steps of a routine; the elements of each of its results."""
        body = body_of(routine)
        values: dict[Node, Sequence[Ordinals]] = {
            inner: (self._operand(outer),)
            for inner, outer in zip(body.inputs, routine.inputs, strict=True)
        }
        for node in body.nodes:
            if node.op is PICK:
                values[node] = (values[node.inputs[0]][node.params[0]],)
            elif not is_known(node):
                template = template_of(node, fusible)
                assert template is not None
                # The elements of a known operand are literals of the template.
                read = [() if is_known(each) else values[each][0] for each in node.inputs]
                values[node] = self._applied(template, read)
        return [values[node][0] for node in body.outputs]

    def lowered(self, picks: Sequence[Node], results: Sequence[Ordinals]) -> Lowered:
        """The routine that stores those of its results that are picked."""
        arrays = [*self._arrays, *picks]
        stores: list[Stored] = [
            (len(self._arrays) + position, element * pick.dtype.itemsize, number)
            for position, pick in enumerate(picks)
            for element, number in enumerate(results[pick.params[0]])
        ]
        steps = _needed(self._steps, {number for _, _, number in stores})
        code = RegisterCode(tuple(steps), tuple(stores))
        entries: list[Entry] = [(node, 0, ()) for node in arrays]
        return Lowered(code, (), entries, 1, 1, len(steps))

    def _operand(self, node: Node) -> Ordinals:
        """The elements of an operand, which are loaded when they are read."""
        if node in self._constants:
            _, value, dtype = node.params
            content = np.array(value, dtype).tobytes()
            return _Repeated(self._added(Literal(content, code_of(dtype))))
        return _Placed(self, self._access[node])

    def load(self, base: Node, place: int) -> int:
        """The step that loads an element of an array."""
        near, byte = self._beside.get(base, (base, 0))
        array = self._arrays.setdefault(near, len(self._arrays))
        step = Load(array, byte + place * base.dtype.itemsize, code_of(base.dtype))
        found = self._number.get(step)
        return self._added(step) if found is None else found

    def _applied(self, template: Template, operands: Sequence[Ordinals]) -> Sequence[Ordinals]:
        """The elements of each output of a node."""
        # Long programs spend their time here.
        numbers = [operands[operand][place] for operand, place in template.reads]
        known, steps, literals = self._number, self._steps, self._literals
        for kind, first, arguments, dtype in template.parts:
            made: Any = first
            if kind is not Literal:
                read = tuple([numbers[each] for each in arguments])
                made = _new(kind, (*first, read, dtype))
            found = known.get(made)
            if found is None:
                if kind is Apply and literals.isdisjoint(read):
                    # `_added` written out.
                    found = known[made] = len(steps)
                    steps.append(made)
                else:
                    found = self._added(made)
            numbers.append(found)
        return [[numbers[each] for each in output] for output in template.outputs]

    def _added(self, step: Step) -> int:
        """The number of a step that is new."""
        found = None
        if type(step) is Apply and not self._literals.isdisjoint(step.arguments):
            found = self._simpler(step)
        if found is None:
            found = len(self._steps)
            self._steps.append(step)
            if type(step) is Literal:
                self._literals.add(found)
        self._number[step] = found
        return found

    def _simpler(self, step: Apply) -> int | None:
        """The step that has the same value, if literals make this one superfluous."""
        steps = [self._steps[number] for number in step.arguments]
        operands = tuple([each if type(each) is Literal else each.dtype for each in steps])
        found = _simplified(step.op, step.params, step.dtype, operands)
        if isinstance(found, Literal):
            number = self._number.get(found)
            return self._added(found) if number is None else number
        return None if found is None else step.arguments[found]


@remembered(4096)
def _simplified(
    op: Op, params: tuple[object, ...], dtype: str, operands: tuple[Literal | str, ...]
) -> Literal | int | None:
    """A literal, or the position of the operand, that an op on literals and others is equal to."""
    inputs: list[Node] = []
    for each in operands:
        of = spec((), np.dtype(each if isinstance(each, str) else each.dtype))
        if isinstance(each, str):
            inputs.append(placeholder(of))
            continue
        value = np.frombuffer(each.content, of.dtype)[0]
        if of.dtype.kind in "fc" and value == 0 and any(each.content):
            return None  # rules for 0 do not hold for -0.0
        inputs.append(Node(OPERATORS.full, (), ((), value.item(), of.dtype), of))
    keywords = op.keywords(params) if params else {}
    result = np.dtype(dtype)
    if all(isinstance(each, Literal) for each in operands):
        arrays = [np.full((), node.params[1], node.dtype) for node in inputs]
        try:
            with np.errstate(all="ignore"):
                found = np.asarray(op.numpy(*arrays, **keywords))
        except Exception:  # an op that refuses these numbers does so when it runs
            return None
        return Literal(found.tobytes(), dtype) if found.dtype == result else None
    if op.simpler is None:
        return None
    simpler = op.simpler(Node(op, tuple(inputs), params, spec((), result)))
    if simpler in inputs:
        return inputs.index(simpler)
    value = None if simpler is None else constant_value(simpler)
    return None if value is None else Literal(np.array(value, result).tobytes(), dtype)


class _Repeated(Sequence[int]):
    """The elements of an operand that are all the same."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __getitem__(self, place: int) -> int:  # type: ignore[override]
        return self._number

    def __len__(self) -> int:
        return 0


class _Placed(Sequence[int]):
    """The elements of an operand, in its order, each loaded from memory when it is first read."""

    def __init__(self, steps: _Steps, access: Access) -> None:
        self._steps = steps
        self._access = access
        self._contiguous = access.is_contiguous()

    def __getitem__(self, number: int) -> int:  # type: ignore[override]
        access = self._access
        place = access.offset
        if self._contiguous:
            place += number
        else:
            steps = zip(access.shape, row_major(access.shape), access.strides, strict=True)
            place += sum(number // step % n * stride for n, step, stride in steps)
        return self._steps.load(access.base, place)

    def __len__(self) -> int:
        return 0


def _needed(steps: Sequence[Step], wanted: set[int]) -> list[Step | None]:
    """The steps with None in the place of those that nothing needs."""
    found: list[Step | None] = [None] * len(steps)
    for number in range(len(steps) - 1, -1, -1):
        if number in wanted:
            step = found[number] = steps[number]
            if isinstance(step, Computed):
                wanted.update(step.arguments)
    return found
