"""The configuration of the library, and the plans and kernels that it would make, as text."""

from __future__ import annotations

import platform

import numpy as np

from gradtape.codegen.cache_folder import cache_folder
from gradtape.codegen.cpython import switch
from gradtape.graph.node import Node
from gradtape.graph.program import Program, names
from gradtape.ops.blas_lapack import library
from gradtape.optimize import loops_of, optimize
from gradtape.optimize.fuse import Fused, Loop
from gradtape.runtime import thread_team as threads
from gradtape.runtime import tiers
from gradtape.tensor.tensor import Tensor, program_of
from gradtape.tensor.variable import Variable
from gradtape.version import __version__


def show_config() -> str:
    """Versions, processor, threads, BLAS and switches, as text; prints nothing.

    >>> "threads" in gt.show_config()
    True
    """
    # At the first call: these load the compiler.
    from gradtape.codegen import llvm
    from gradtape.codegen.kernels import builder
    from gradtape.codegen.math import mathlibrary

    host = llvm.host()
    libmvec = host.libmvec and mathlibrary.preference() in ("auto", "libmvec")
    in_python = switch.why_python()
    lines = {
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
    width = max(map(len, lines))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines.items())


def plan_of(*tensors: Tensor | Variable) -> str:
    """How the compiled tier would compute these tensors: loops and library calls in order.

    >>> print(gt.plan_of(gt.sum(gt.sin(gt.asarray([1.0, 2.0])) * 2.0)))
    inputs a: float64[2], b: float64[]
    loop over (2,), reducing (0,)
      c = sin(a)
      d = multiply(c, b)
      e = sum(d) -> memory
    """
    program, fused = _fused(tensors)
    fresh = names()
    name: dict[Node, str] = {node: next(fresh) for node in program.inputs}
    lines = ["inputs " + ", ".join(f"{name[node]}: {node.spec}" for node in program.inputs)]

    def called(node: Node) -> str:
        return f"{node.op.name}({', '.join(map(shown, node.inputs))})"

    def shown(node: Node) -> str:
        if node in name:
            return name[node]
        if node in fused.constants:
            return str(node.params[1])
        if node in fused.access and fused.access[node].base is not node:
            return called(node)
        name[node] = next(fresh)
        return name[node]

    for unit in fused.units:
        if not isinstance(unit, Loop):
            text = called(unit.node)
            lines.append(f"call {shown(unit.node)} = {text}")
            continue
        reducing = f", reducing {unit.axes}" if unit.axes is not None else ""
        lines.append(f"loop over {unit.space}{reducing}")
        for node in unit.nodes:
            text = called(node)
            stored = " -> memory" if node in unit.outputs else ""
            lines.append(f"  {shown(node)} = {text}{stored}")
    return "\n".join(lines)


def kernels_of(*tensors: Tensor | Variable, assembly: bool = False) -> str:
    """The vector IR, or the machine code, of the kernels that would compute these tensors.

    >>> "define void @kernel_0" in gt.kernels_of(gt.sin(gt.asarray([1.0, 2.0])))
    True
    """
    # At the first call: these load the compiler.
    from gradtape.codegen import llvm
    from gradtape.codegen.kernels.compile import module_text
    from gradtape.codegen.kernels.lower import lower

    _, fused = _fused(tensors)
    bits = llvm.host().bits
    kernels = [
        item.kernel
        for unit in fused.units
        if isinstance(unit, Loop)
        for item in lower(unit, fused.access, fused.constants, bits)
    ]
    text, _ = module_text(dict.fromkeys(kernels))
    return llvm.assembly(text) if assembly else text


def _fused(tensors: tuple[Tensor | Variable, ...]) -> tuple[Program, Fused]:
    """The optimised program of these tensors, and its loops and library calls."""
    # At the first call: it loads the compiler.
    from gradtape.codegen.kernels.lower import fusible

    return loops_of(optimize(program_of(*tensors)), fusible)
