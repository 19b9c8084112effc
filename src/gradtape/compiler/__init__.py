"""Loop to machine code: kernels, plans and calls as IR text, and the addresses they become.

Other packages import:

- `kernels.lower`: `fusible`, whether a loop can compute a node; `lower`, the kernels of a loop
- `kernels.compile`: `compile_kernels`, addresses of kernels; `module_text`, their IR
- `kernels.arguments`: `Lowered`, a kernel with its arguments
- `kernels.builder`: `rounding`, strict or fast
- `math`: where mathematical functions come from, for reports
- `plans`: the native interpreter of plans with its threads, loops, branches and calls of BLAS
- `cpython`: machine code that knows the objects of CPython
- `integers`: `compile_integers`, integer loops from their Python source
- `llvm`: `compile_ir`, IR text to addresses; `host`, the machine
- `known_programs`: whether an earlier process has compiled a program
- `cache_folder`: where machine code is kept on disk
"""
