"""Derivatives of a recording, kept by structure: a repeated question finds the derived graph.

Other packages import:

- `gradient`: `derive_reverse` and `derive_forward`, which tapes ask; `hand_out`: `hold_results`
- `window`: `Window`, the recording of a tape with the nodes that are constants to it
- `jacobians`: dense Jacobians and Hessians; `chunks`: those that do not fit in memory at once
- `sparse_jacobians`: sparse Jacobians and Hessians. It uses `sparse_patterns`, which finds their
  patterns, and `sparse_programs`, which computes their entries
- `products`: Jacobian and Hessian products with any direction
- `python_rules`: derivatives that are Python closures, and checkpoints
- `solution_rules`: the derivative of a solution by the implicit function theorem;
  `linear_systems`: the linear systems that it solves
- `body_transforms`: the transforms that loops and branches apply to their bodies
"""
