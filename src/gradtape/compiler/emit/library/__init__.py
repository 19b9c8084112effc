"""Library: native routines of ops that are no fused loops, such as sorting and factorisations.

Each module writes the IR of some routines. A routine is a kernel: it computes the items from `lo`
to `hi`, reads its operands and writes its results, which are contiguous.

Other packages import `function_of`: a routine.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from gradtape.caches import remembered
from gradtape.compiler.objects.emission import Source
from gradtape.compiler.objects.llvm import NativeFunction, NativeModule

# The module that writes each routine. A writer is a function of the options, of the same name.
MODULES: dict[str, str] = {
    "check_positions": "indexing",
    "copy_words": "indexing",
    "decompose_singular": "lapack",
    "decompose_symmetric": "lapack",
    "determinant_by_lu": "lapack",
    "draw_numbers": "random",
    "exponentials": "exponentials",
    "factor_large_lu": "large_factors",
    "factor_lu": "lapack",
    "factor_orthogonal": "lapack",
    "factor_symmetric": "lapack",
    "integer_powers": "powers",
    "invert_by_lu": "lapack",
    "invert_large_by_lu": "large_factors",
    "last_writers": "indexing",
    "order_rows": "sorting",
    "polygammas": "powers",
    "scatter_winners": "indexing",
    "search_rows": "searching",
    "small_factor_lu": "small_factors",
    "small_factor_symmetric": "small_factors",
    "small_invert_by_lu": "small_factors",
    "small_solve_by_lu": "small_factors",
    "small_solve_triangle": "small_factors",
    "solve_by_lu": "lapack",
    "solve_triangle": "lapack",
    "sort_each": "sorting",
    "sort_rows": "sorting",
    "split_each": "sorting",
    "transform_rows": "fft_rows",
}

Writer = Callable[..., str]


@remembered(512)
def function_of(routine: str, options: tuple[str, ...]) -> NativeFunction:
    """A routine, which is compiled with the first plan that calls it."""
    module = import_module(f"{__name__}.{MODULES[routine]}")
    write: Writer = getattr(module, routine)
    return NativeFunction(NativeModule(Source(write(*options), level=3)), routine)
