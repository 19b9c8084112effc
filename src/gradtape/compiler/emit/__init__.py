"""Emit: kernels, routines and instructions written as IR text.

- `kernels`, `reductions`, `columns`, `accumulators`, `loops`, `memory`, `builder`: fused loops
- `register_code`: routines on tiny arrays; `writer`, `integer_loops`: loops over integers
- `math/`: mathematical functions; `library/`: routines such as sorting
- `plans/`: the interpreter of instructions, its team of threads, loops, products
"""
