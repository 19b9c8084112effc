"""Derivatives of a recording, kept by structure: a repeated derivative is found.

Other packages import:

- `window`: `Window`, the recording of a tape with the nodes that are constants to it,
  `derive_reverse` and `derive_forward`, and `hold_results`
- `modes`: `forward` and `reverse`; `batch`: one graph for many examples
- `jacobian`: dense Jacobians and Hessians; `chunks`: those that do not fit in memory at once
- `sparse`: patterns, colourings, and the programs of sparse Jacobians and Hessians
- `products`: Jacobian and Hessian products with any direction
- `python_rules`: derivatives that are Python closures, and checkpoints
- `solution_rules`: the derivative of a solution by the implicit function theorem, and the linear
  systems that it solves
- `body_transforms`: the transforms that loops and branches apply to their bodies
"""
