"""Native calls: the nodes outside fused loops, each as one instruction of the plan.

A node is a loop or branch over a body, a routine of `compiler/emit/library`, or, without native
code, a call of its NumPy rule in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from gradtape.compiler.emit.library import function_of
from gradtape.compiler.emit.plans.instructions import Instruction
from gradtape.compiler.lower.fused_loops import fusible
from gradtape.compiler.lower.native_loops import NativeBody, native_loop
from gradtape.compiler.lower.native_stretches import PreparedInstruction
from gradtape.compiler.lower.plan import CallMemory
from gradtape.compiler.lower.python_calls import python_call
from gradtape.compiler.passes.fuse import fuse
from gradtape.compiler.passes.rewrite import Rewriting
from gradtape.compiler.passes.units import Call, Fused
from gradtape.compiler.thread_team import get_num_threads, team_word
from gradtape.config import PARALLEL_LOOP_WORK
from gradtape.ir import PICK, Node, Program, rebuilt
from gradtape.ops.blas_lapack import library
from gradtape.ops.elementwise.arithmetic import IDENTITY
from gradtape.ops.families.native_code import NativeCall


def native_instruction(
    node: Node, recorded: Node, body_of: Callable[[Program], NativeBody], memory: CallMemory
) -> PreparedInstruction:
    """A node that is in no loop, as an instruction.

    `recorded` is the node that it was before its operands were copied; errors name it.
    """
    if node.op.runs_bodies:
        loop = native_loop(node, body_of, memory)
        if loop is not None:
            return loop
    call = None if node.op.native is None else node.op.native(node)
    if call is None:
        return python_call(node, recorded, memory)
    return _routine(node, call, memory)


def _routine(node: Node, call: NativeCall, memory: CallMemory) -> PreparedInstruction:
    """A routine of `compiler/emit/library` as an instruction."""
    specs = node.spec if type(node.spec) is tuple else (node.spec,)
    results = [memory.result(number, of.nbytes) for number, of in enumerate(specs)]
    if call.shared:
        results.append(memory.take(call.shared))
    # A library that cannot be held to one thread has threads of its own.
    alone = call.calls_library and not library().can_be_held
    parallel = call.work >= PARALLEL_LOOP_WORK and call.total > 1 and not alone
    # With this grain there are at most as many parts as scratch memory is taken for.
    grain = -(-call.total // get_num_threads()) if parallel else max(call.total, 1)
    scratch = memory.take(call.scratch * -(-call.total // grain))
    words = [word for place in (*memory.operands, *results, scratch) for word in place]
    team = [team_word()] if call.shares else []
    made = Instruction(
        function_of(call.routine, call.options),
        [*words, call.scratch, *call.words, *team],
        call.total,
        grain,
        parallel,
        call.work,
    )
    return PreparedInstruction(made, call.calls_library, call.work, parallel or call.shares)


def with_whole_operands(
    program: Program, is_called: Callable[[Node], bool], refused: Callable[[Node], bool]
) -> tuple[Program, Fused, Mapping[Node, Node]]:
    """The program fused; operands of calls are contiguous, by copies of those that are not.

    The last result gives the old node of each new one.

    `is_called` says of a node outside loops whether its operands must be. Nodes that are
    `refused` are not put into loops.
    """

    def may_fuse(node: Node) -> bool:
        return fusible(node) and not refused(node)

    fused = fuse(program, may_fuse)
    calls = {
        unit.node
        for unit in fused.units
        if isinstance(unit, Call) and unit.node.op is not PICK and is_called(unit.node)
    }
    scattered = {
        operand for node in calls for operand in node.inputs if not _lies_whole(operand, fused)
    }
    if not scattered:
        return program, fused, {}
    program, renamed = with_copies(program, scattered, calls)
    return program, fuse(program, may_fuse), {new: old for old, new in renamed.items()}


def _lies_whole(node: Node, fused: Fused) -> bool:
    found = fused.access.get(node)
    return node not in fused.constants and found is not None and found.is_contiguous()


def with_copies(
    program: Program, copied: Collection[Node], readers: Collection[Node]
) -> tuple[Program, dict[Node, Node]]:
    """The program in which `readers` read copies of `copied`, and the new node of each old one."""
    copies: dict[Node, Node] = {}
    now = Rewriting(program)

    def copied_of(parent: Node) -> Node:
        found = now.new[parent]
        return copies.setdefault(parent, copy_of(found)) if parent in copied else found

    def read(node: Node, _: Rewriting) -> Node | None:
        return rebuilt(node, tuple(map(copied_of, node.inputs))) if node in readers else None

    return now.run(read), now.new


def copy_of(node: Node) -> Node:
    """A node with the same value in memory of its own."""
    return Node(IDENTITY, (node,), (), node.spec)
