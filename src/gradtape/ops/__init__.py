"""The ops: one declaration per op, in subpackages by kind.

An op's Op is imported from its module, as `from gradtape.ops.arrays.movement import RESHAPE`; of an
element-wise function it is `families.elementwise.op_of(sin)`. Other packages also import:

- families.strides, families.memory_copies: how values lie in memory, for `compiler`
- families.batching, families.sparsity, families.independence: parts of the rules of ops
- control.bodies: the programs that loops and branches hold
"""
