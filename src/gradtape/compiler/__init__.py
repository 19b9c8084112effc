"""Loop to machine code: kernels, plans and calls as IR text, and the addresses they become.

Other packages import:

- `lower`: whether a loop can compute a node, the kernels of a loop, and their arguments
- `emit.kernels`: `compile_kernels`, addresses of kernels; `module_text`, their IR
- `emit.builder`: `rounding`, strict or fast
- `emit.math`: where mathematical functions come from, for reports
- `emit.plans`: the native interpreter of plans with its threads, loops, branches and calls of BLAS
- `emit.integer_loops`: `compile_integers`, integer loops from their Python source
- `cpython`: machine code that accesses the objects of CPython
- `objects.llvm`: `compile_ir`, IR text to addresses; `host`, the machine
- `objects.known_programs`: whether an earlier process has compiled a program
- `objects.cache_folder`: where machine code is kept on disk
"""
