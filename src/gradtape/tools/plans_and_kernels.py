"""The configuration of the library, and the plans and kernels that it would make, as text."""

from __future__ import annotations

import platform
from collections.abc import Container

import numpy as np

from gradtape.compiler import thread_team as threads
from gradtape.compiler.cpython import switch
from gradtape.compiler.objects.cache_folder import cache_folder
from gradtape.compiler.passes import loops_of, optimize
from gradtape.compiler.passes.routine_op import body_of, cost_of
from gradtape.compiler.passes.units import Call, Fused, Registers
from gradtape.display import Text
from gradtape.ir.node import Node, constant_value
from gradtape.ir.program import Program, names
from gradtape.ops.blas_lapack import library
from gradtape.runtime import tiers
from gradtape.tensor.tensor import Tensor, program_of
from gradtape.tensor.variable import Variable
from gradtape.version import __version__


def show_config() -> str:
    """Versions, processor, threads, BLAS and switches, as text; prints nothing.

    >>> "threads" in gt.show_config()
    True
    """
    found = configuration()
    width = max(map(len, found))
    return Text("\n".join(f"{name:<{width}}  {value}" for name, value in found.items()))


def configuration() -> dict[str, str]:
    """The configuration by name."""
    # At the first call: these load the compiler.
    from gradtape.compiler.emit import builder
    from gradtape.compiler.emit.math import mathlibrary
    from gradtape.compiler.objects import llvm

    host = llvm.host()
    libmvec = host.libmvec and mathlibrary.preference() in ("auto", "libmvec")
    in_python = switch.why_python()
    return {
        "gradtape": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "processor": f"{host.machine}, vectors of {host.bits} bits",
        "vector math": "libmvec" if libmvec else "libm",
        "BLAS": library().name,
        "threads": str(threads.get_num_threads()),
        "kernels on disk": str(cache_folder() or "none"),
        "recorder": "native" if in_python is None else f"Python: {in_python}",
        "GRADTAPE_JIT": tiers.MODE,
        "GRADTAPE_CONTRACT": builder.CONTRACT,
        "GRADTAPE_RECORDER": switch.MODE,
    }


def plan_of(*tensors: Tensor | Variable) -> str:
    """How the compiled tier would compute these tensors: loops and calls in order.

    A call is native code unless it says "in Python", with the ops that Python computes.

    >>> print(gt.plan_of(gt.sum(gt.sin(gt.asarray([1.0, 2.0])) * 2.0)))
    inputs a: float64[2], b: float64[]
    loop over (2,), reducing (0,)
      c = sin(a)
      d = multiply(c, b)
      e = sum(d) -> memory
    """
    # At the first call: it loads the compiler.
    from gradtape.compiler.lower.lowered_program import kind_of

    program, fused = _fused(tensors)
    in_python = _python_ops(tensors)
    text = _NodeText(fused)
    inputs = [f"{text.name(node)}: {node.spec}" for node in program.inputs]
    lines = ["inputs " + ", ".join(inputs)]
    for unit in fused.units:
        if isinstance(unit, Call):
            found = in_python.get(kind_of(unit.node))
            where = f", in Python: {', '.join(sorted(found))}" if found else ""
            lines.append(f"call {text.line(unit.node)}{where}")
        elif isinstance(unit, Registers):
            lines.append(f"registers, {cost_of(unit.routine)} steps")
            lines += text.routine(unit)
        else:
            reducing = f", reducing {unit.axes}" if unit.axes is not None else ""
            lines.append(f"loop over {unit.space}{reducing}")
            lines += [text.line(node, unit.outputs, "  ") for node in unit.nodes]
    return Text("\n".join(lines))


class _NodeText:
    """Nodes as text: each has a letter, except constants and views."""

    def __init__(self, fused: Fused) -> None:
        self.fused, self.fresh = fused, names()
        self.known: dict[Node, str] = {}

    def name(self, node: Node) -> str:
        """The letter of a node; the next one if it has none."""
        if node not in self.known:
            self.known[node] = next(self.fresh)
        return self.known[node]

    def shown(self, node: Node) -> str:
        """A node as an operand."""
        if node not in self.known:
            if constant_value(node) is not None:
                return str(node.params[1])
            access = self.fused.access.get(node)
            if access is not None and access.base is not node:
                return self.called(node)
        return self.name(node)

    def called(self, node: Node) -> str:
        """The application that a node is."""
        return f"{node.op.name}({', '.join(map(self.shown, node.inputs))})"

    def line(self, node: Node, kept: Container[Node] = (), indent: str = "") -> str:
        """A step that computes a node; those that are kept go to memory."""
        # The operands get their letters first.
        text = self.called(node)
        return f"{indent}{self.shown(node)} = {text}{' -> memory' if node in kept else ''}"

    def routine(self, unit: Registers) -> list[str]:
        """The steps of register code."""
        body, operands = body_of(unit.routine), unit.routine.inputs
        self.known |= {a: self.shown(b) for a, b in zip(body.inputs, operands, strict=True)}
        steps = [node for node in body.nodes if constant_value(node) is None]
        lines = [self.line(node, body.outputs, "  ") for node in steps]
        self.known |= {pick: self.known[body.outputs[pick.params[0]]] for pick in unit.outputs}
        return lines


def kernels_of(*tensors: Tensor | Variable, assembly: bool = False) -> str:
    """The vector IR, or the machine code, of the kernels that would compute these tensors.

    >>> "define void @kernel_0" in gt.kernels_of(gt.sin(gt.asarray([1.0, 2.0])))
    True
    """
    # At the first call: these load the compiler.
    from gradtape.compiler.emit.kernels import module_text
    from gradtape.compiler.lower.fused_loops import lower
    from gradtape.compiler.lower.register_routines import lower_routines
    from gradtape.compiler.objects import llvm

    _, fused = _fused(tensors)
    bits = llvm.host().bits
    access, constants = fused.access, fused.constants
    lowered = [
        item
        for unit in fused.units
        if not isinstance(unit, Call)
        for item in (
            [lower_routines(unit, access, constants, {})]
            if isinstance(unit, Registers)
            else lower(unit, access, constants, bits)
        )
    ]
    kernels = [item.kernel for item in lowered]
    text, _ = module_text(dict.fromkeys(kernels))
    return Text(llvm.assembly(text) if assembly else text)


def _python_ops(tensors: tuple[Tensor | Variable, ...]) -> dict[object, frozenset[str]]:
    """For each kind of call, the ops that it calls in Python."""
    # At the first call: it loads the compiler.
    from gradtape.compiler.lower.lowered_program import LoweredProgram, kind_of
    from gradtape.runtime.compiled_plan import body_of

    lowered = LoweredProgram(optimize(program_of(*tensors)), body_of)
    return {kind_of(node): native.python_ops for node, native in lowered.natives.items()}


def _fused(tensors: tuple[Tensor | Variable, ...]) -> tuple[Program, Fused]:
    """The optimised program of these tensors, and its loops and library calls."""
    # At the first call: it loads the compiler.
    from gradtape.compiler.lower.fused_loops import fusible

    return loops_of(optimize(program_of(*tensors)), fusible)
