"""What each op means: one declaration per op, in subpackages by kind.

An op's Op is imported from its module, as `from gradtape.ops.arrays.movement import RESHAPE`; of an
element-wise function it is `families.elementwise.op_of(sin)`. Other packages also import:

- families.access, families.copies: how values lie in memory, for `compiler` and `runtime`
- families.batching, families.reads, families.examples: what the rules of ops are written with
- control.bodies: the programs that loops and branches hold
"""
