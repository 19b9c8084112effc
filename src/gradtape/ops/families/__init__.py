"""Families: they fill in the fields of an Op that follow from its kind, by rules that ops share.

- families: `elementwise`, `linear`, `for_each`, and for reductions `axes`
- rules of ops by kind: `batching` (batch), `reads` (sparsity), `examples`
  (independence of examples), `identities` (simpler), `copies` (memory), `lowering` (kernels)
- building blocks of rules: `shapes`, `casting`, `access`, `samples`
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
