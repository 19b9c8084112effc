"""The plan of a body: native instructions over slots that a loop fills and moves on."""

from __future__ import annotations

from typing import Any

from gradtape.codegen.kernels.compile import compile_kernels
from gradtape.codegen.plans.instructions import Instruction, Instructions
from gradtape.graph.node import Node
from gradtape.graph.program import Program
from gradtape.optimize.fuse import VIEWS
from gradtape.runtime.compiled_plan import ARENA, CompiledPlan, is_fixed, is_product
from gradtape.runtime.counters import COUNTS
from gradtape.runtime.native_loops import copy_of, with_copies
from gradtape.runtime.native_stretches import unpacked


class NotNative(Exception):  # noqa: N818 - a question answered, not a fault
    """Something in a body is no native code."""


class Scattered(Exception):  # noqa: N818 - a question answered, not a fault
    """A product's operands do not lie as BLAS reads them."""


def body_plan(program: Program) -> BodyPlan | None:
    """The plan of a body, or None if it is not all native."""
    try:
        try:
            return BodyPlan(program)
        except Scattered:
            return CopyingPlan(program)
    except (NotNative, Scattered):
        return None


class BodyPlan(CompiledPlan):
    """A plan that a loop runs: its operands and results are wherever the loop says."""

    streams = False

    # For the loop: slots of inputs and outputs, tables by slot, instructions.
    input_slots: list[int]
    output_slots: list[int]
    fixed: list[tuple[int, int]]
    stream: Instructions
    arena_slot = ARENA

    def _prepared(self, program: Program) -> Program:
        """Each output is written by an instruction of its own: no views, inputs or repetitions."""
        nodes = list(program.nodes)
        outputs: list[Node] = []
        given = set(program.inputs)
        for node in program.outputs:
            is_view = node.op.name in VIEWS or node.op.family == "creation"
            if node in given or is_view or node in outputs:
                node = copy_of(node)
                nodes.append(node)
            outputs.append(node)
        return Program(program.inputs, tuple(nodes), tuple(outputs))

    def _number_inputs(self, program: Program) -> None:
        # Numbers are not given by value here: each lies in memory like an array.
        self._scalars = []
        self._arrays = list(program.inputs)
        for node in self._arrays:
            self._place[node] = (self._new_slot(), 0)

    def _product(self, node: Node) -> Instruction | None:
        found = super()._product(node)
        if found is None:
            raise Scattered
        return found

    def _call(self, node: Node) -> None:
        if node in self._place or not is_fixed(node):
            raise NotNative
        super()._call(node)

    def _finish(self) -> None:
        if any(how != "written" for how in self._results.how.values()):
            raise NotNative
        content: list[Any] = [item for _, group in self._steps for item in group]
        kernels = [item[0].kernel for item in content if isinstance(item, tuple)]
        addresses, fresh = compile_kernels(kernels)
        COUNTS.kernels_compiled += fresh
        COUNTS.kernels_reused += len(kernels) - fresh
        instructions, self.products, self.work, parallel = unpacked(content, addresses)
        self.stream = Instructions(instructions)
        self.parallel = parallel or self.stream.parallel
        self.slots = self._slots
        self.input_slots = [self._place[node][0] for node in self.program.inputs]
        self.output_slots = [self._place[node][0] for node in self.program.outputs]
        self.fixed = [
            (self._place[node][0], array.ctypes.data) for node, array in self._fixed.items()
        ]
        # Tables of loops inside.
        self._kept = content


class CopyingPlan(BodyPlan):
    """A plan whose products read copies of what is a view."""

    def _prepared(self, program: Program) -> Program:
        products = {node for node in program.nodes if is_product(node)}
        views = {
            parent
            for node in products
            for parent in node.inputs
            if parent.op.name in (*VIEWS, "full")
        }
        return super()._prepared(with_copies(program, views, products)[0])
