"""What follows for an op from its nature: the families, and the rules that they share.

- families: `elementwise`, `linear`, `for_each`, and for reductions `axes`
- rules of ops by kind: `batching` and `batched_rows` (batch), `reads` (sparsity), `examples`
  (independence of examples), `identities` (simpler), `copies` (memory), `lowering` (kernels)
- what rules are written with: `shapes`, `casting`, `access`, `samples`
"""
