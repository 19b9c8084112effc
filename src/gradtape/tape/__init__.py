"""Derivatives that users ask for: tapes, accumulators, transforms of functions, whole matrices.

Other packages import:

- `gradient_tape`: `GradientTape`; `forward_accumulator`: `ForwardAccumulator`;
- `grad_vjp_jvp`, `jacobian_hessian`: the transforms of functions, and the steps they are made of;
- `recording_scope`: directions and results of derivatives, for another face of the tape;
- `tape_jacobians`: checks of the options `mode` and `sparse`, and their static types;
- `point`: `Point`, a function recorded at one point; `flat_vector`: `Layout` of a nest as a vector;
- `prepared`, `sparsity_patterns`: matrices prepared once, and the entries that can be nonzero;
- `custom_gradient`, `custom_jvp`: derivatives written by hand; `custom_rules`: what they share;
- `checkpoint`, `saved_for_backward`: what is computed again, and what is kept.
"""
