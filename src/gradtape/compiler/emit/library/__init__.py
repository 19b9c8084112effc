"""Library: native routines of ops that are no fused loops, such as sorting and factorisations.

Each module writes the IR of some routines. A routine is a kernel: it computes the items from `lo`
to `hi`, reads its operands and writes its results, which are contiguous.

Other packages import `function_of`: a routine.
"""

from __future__ import annotations

from importlib import import_module

from gradtape.caches import remembered
from gradtape.compiler.objects.emission import Source
from gradtape.compiler.objects.llvm import NativeFunction, NativeModule

# The routines that each module writes: a function of the options, of the same name.
ROUTINES = {
    "indexing": ("check_positions", "copy_words", "last_writers", "scatter_winners"),
    "lapack": (
        "decompose_singular",
        "decompose_symmetric",
        "determinant_by_lu",
        "factor_lu",
        "factor_orthogonal",
        "factor_symmetric",
        "invert_by_lu",
        "solve_by_lu",
        "solve_triangle",
    ),
    "random": ("draw_numbers",),
    "exponentials": ("exponentials",),
    "large_factors": ("factor_large_lu", "invert_large_by_lu"),
    "powers": ("integer_powers", "polygammas"),
    "sorting": ("order_rows", "sort_each", "sort_rows", "split_each"),
    "searching": ("search_rows",),
    "small_factors": (
        "small_factor_lu",
        "small_factor_symmetric",
        "small_invert_by_lu",
        "small_solve_by_lu",
        "small_solve_triangle",
    ),
    "fft_rows": ("transform_rows",),
}
MODULES = {name: module for module, names in ROUTINES.items() for name in names}


@remembered(512)
def function_of(routine: str, options: tuple[str, ...]) -> NativeFunction:
    """A routine, which is compiled with the first plan that calls it."""
    module = import_module(f"{__name__}.{MODULES[routine]}")
    text: str = getattr(module, routine)(*options)
    return NativeFunction(NativeModule(Source(text, level=3)), routine)
