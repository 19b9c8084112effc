"""Families: they fill in the fields of an Op that follow from its kind, by rules that ops share.

- `define`, by which ops are declared; `elementwise`; parts of `reductions`
- rules of ops by kind: `batching` (batch), `sparsity`, `independence` (examples), `identities`
  (simpler), `memory_copies` (copies), `lowering` (llvm)
- building blocks of rules: `shapes`, `strides`, `casting`, `samples`
"""

from gradtape.ops.families.casting import cast, promotion
from gradtape.ops.families.samples import Sample, generator
from gradtape.ops.families.shapes import broadcast_shapes, broadcast_to, normalize_axis
from gradtape.ops.families.signatures import kind_of_operand
from gradtape.ops.families.sparsity import nothing

__all__ = [
    "Sample",
    "broadcast_shapes",
    "broadcast_to",
    "cast",
    "generator",
    "kind_of_operand",
    "normalize_axis",
    "nothing",
    "promotion",
]
