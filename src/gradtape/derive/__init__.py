"""Derivatives of a recording, kept by structure: a repeated question finds the derived graph.

Door, what other rooms import:

- `gradient`: `derive_reverse` and `derive_forward`, which tapes ask; `hand_out`: `hold_results`
- `window`: `Window`, the part of a recording that a tape differentiates
- `jacobians`: dense Jacobians and Hessians; `chunks`: those that do not fit in memory at once
- `sparse_jacobians`: sparse ones; `sparse_patterns`, with the integers that patterns depend on,
  and `sparse_programs`, with matrices in captures, are their parts
- `products`: Jacobian and Hessian products with any direction
- `python_rules`: derivatives that are Python closures, and checkpoints
- `solution_rules`: the derivative of a solution by the implicit function theorem;
  `linear_systems`: the linear systems that it solves
- `body_transforms`: the transforms that loops and branches apply to their bodies
"""
