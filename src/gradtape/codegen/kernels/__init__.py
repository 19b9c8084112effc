"""Fused loop to kernel: one loop nest without sizes, as vector IR.

In the order that a loop passes through them:

- `lower`, with `copies`: a loop becomes a `Kernel` (`kernel`) and its arguments
  (`arguments`)
- `compile` and `reductions`: the loops of each layout, with `accumulators` for partial results
- `loops` and `memory`: arguments, control flow, addresses; loads and stores
- `builder`, with `complexvalues`: the body, written by the ops' `llvm` rules
- `compile`: IR text becomes addresses, each kernel once per process

The docstring of `gradtape.codegen` lists what other packages import.
"""
