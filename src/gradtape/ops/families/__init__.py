"""Families: they fill in the fields of an Op that follow from its kind, by rules that ops share.

- families: `elementwise`, `linear`, `for_each`, and for reductions `axes`
- rules of ops by kind: `batching` (batch), `reads` (sparsity), `examples`
  (independence of examples), `identities` (simpler), `copies` (memory), `lowering` (kernels)
- building blocks of rules: `shapes`, `casting`, `access`, `samples`
"""
