"""Compile: kernels to addresses, each kernel once per process.

The text of all new kernels is one module of IR, which LLVM parses, optimises and compiles; the
engine keeps the machine code, and plans call the functions by address.
"""

from __future__ import annotations

from collections.abc import Iterable

from gradtape.codegen import llvm
from gradtape.codegen.kernels import builder
from gradtape.codegen.kernels.kernel import Kernel, lane_count
from gradtape.codegen.kernels.nests import kernel_text
from gradtape.graph.locks import new_lock

# By kernel and rounding mode.
_addresses: dict[tuple[Kernel, str], int] = {}
_lock = new_lock()


def module_text(kernels: Iterable[Kernel]) -> tuple[str, dict[Kernel, str]]:
    """One module with a function for each kernel."""
    bits = llvm.host().bits
    functions: list[str] = []
    definitions: dict[str, None] = {}
    names: dict[Kernel, str] = {}
    for kernel in kernels:
        name = names[kernel] = f"kernel_{len(names)}"
        text, needed = kernel_text(kernel, lane_count(kernel, bits), name)
        functions.append(text)
        definitions.update(dict.fromkeys(needed))
    attributes = (
        f'attributes #0 = {{ nounwind "min-legal-vector-width"="{bits}" '
        f'"prefer-vector-width"="{bits}" }}'
    )
    return "\n".join([*definitions, *functions, attributes, "!0 = !{i32 1}"]), names


def compile_kernels(kernels: Iterable[Kernel]) -> tuple[dict[Kernel, int], int]:
    """The address of each kernel, and how many had to be compiled."""
    wanted = list(dict.fromkeys(kernels))
    with _lock:
        mode = builder.rounding_mode()
        fresh = [kernel for kernel in wanted if (kernel, mode) not in _addresses]
        if fresh:
            text, names = module_text(fresh)
            compiled = llvm.compile_ir(text)
            for kernel in fresh:
                _addresses[kernel, mode] = compiled.address(names[kernel])
        return {kernel: _addresses[kernel, mode] for kernel in wanted}, len(fresh)
