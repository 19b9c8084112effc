"""Lower: a fused program becomes kernels, instructions and memory places, still without IR text.

- `lowered_program`: a program over slots, from which `runtime` makes plans; `plan` has its types
- `fused_loops`, `register_routines`, `kernel`, `arguments`, `copy_kernels`, `llvm_effort`: kernels
- `native_calls`, `native_loops`, `python_calls`, `products/`: all other nodes
- `arena`, `output_aliasing`, `memory_limit`: the places of values, and the limit of memory
- `native_stretches`, `kernel_chains`: instructions that one call runs, in rows that share a cache
"""
