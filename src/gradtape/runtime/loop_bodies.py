"""Bodies of loops and branches as native instructions, over slots that the loop fills and moves."""

from __future__ import annotations

from gradtape.codegen.kernels import builder
from gradtape.codegen.plans.instructions import Instruction, Instructions
from gradtape.graph import Node, Program, constant_value
from gradtape.runtime.lowered_program import ARENA, LoweredProgram, NumpyCall, is_fixed, is_product
from gradtape.runtime.native_loops import Body, copy_of, with_copies
from gradtape.runtime.native_stretches import assembled, kernel_addresses
from gradtape.runtime.thread_team import get_num_threads


class NotNative(Exception):  # noqa: N818 - a question answered, not a fault
    """Something in a body has no native code."""


class Scattered(Exception):  # noqa: N818 - a question answered, not a fault
    """The operands of a product do not lie in memory as BLAS reads them."""


def body_of(program: Program) -> Body | None:
    """The native body of a program, or None if it is not all native."""
    # Products are cut by the number of threads, so a body is made for each.
    key = ("native", builder.rounding_mode(), get_num_threads())
    if key not in program.derived:
        program.derived[key] = _new_body(program)
    found: Body | None = program.derived[key]
    return found


def _new_body(program: Program) -> Body | None:
    try:
        try:
            return _body(LoweredBody(program, body_of))
        except Scattered:
            return _body(CopyingBody(program, body_of))
    except (NotNative, Scattered):
        return None


def _body(lowered: LoweredBody) -> Body:
    if any(how != "written" for how in lowered.outputs.how.values()):
        raise NotNative
    stretches = [step for step in lowered.steps if not isinstance(step, NumpyCall)]
    items = [item for stretch in stretches for item in stretch]
    found = assembled(items, kernel_addresses([items]))
    stream = Instructions(found.instructions)
    place = lowered.place
    return Body(
        stream=stream,
        products=found.products,
        work=found.work,
        parallel=found.parallel or stream.parallel,
        slots=lowered.slots,
        input_slots=[place[node][0] for node in lowered.program.inputs],
        output_slots=[place[node][0] for node in lowered.program.outputs],
        arena_slot=ARENA,
        arena_size=lowered.arena_size,
        tables=[(place[node][0], table) for node, table in lowered.fixed.items()],
        kept=items,
    )


class LoweredBody(LoweredProgram):
    """A lowered program whose operands and results are wherever the loop says."""

    streams = False

    def _prepared(self, program: Program) -> Program:
        """Each output is written by an instruction of its own: no views, inputs or repetitions."""
        nodes = list(program.nodes)
        outputs: list[Node] = []
        inputs = set(program.inputs)
        for node in program.outputs:
            is_view = node.op.view is not None or node.op.constant
            if node in inputs or is_view or node in outputs:
                node = copy_of(node)
                nodes.append(node)
            outputs.append(node)
        return Program(program.inputs, tuple(nodes), tuple(outputs))

    def _number_inputs(self, program: Program) -> None:
        # Numbers are not passed by value to a body: each lies in memory like an array.
        self.arrays = list(program.inputs)
        for node in self.arrays:
            self.place[node] = (self._new_slot(), 0)

    def _product(self, node: Node) -> Instruction | None:
        found = super()._product(node)
        if found is None:
            raise Scattered
        return found

    def _call_numpy(self, node: Node) -> None:
        if node in self.place or not is_fixed(node):
            raise NotNative
        super()._call_numpy(node)


class CopyingBody(LoweredBody):
    """A body whose products read contiguous copies of views."""

    def _prepared(self, program: Program) -> Program:
        products = {node for node in program.nodes if is_product(node)}
        views = {
            parent
            for node in products
            for parent in node.inputs
            if parent.op.view is not None or constant_value(parent) is not None
        }
        return super()._prepared(with_copies(program, views, products)[0])
