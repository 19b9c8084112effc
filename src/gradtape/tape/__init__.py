"""Derivatives that users request: tapes, accumulators, transforms of functions, whole matrices.

Other packages import:

- `gradient_tape`: `GradientTape`; `forward_accumulator`: `ForwardAccumulator`;
- `grad_vjp_jvp`, `jacobian_hessian`: the transforms of functions, and the steps they are made of;
- `recording_scope`: directions and results of derivatives, for TensorFlow's tape;
- `tape_jacobians`: checks of the options `mode` and `sparse`, and their static types;
- `function_at_point`: `FunctionAtPoint`, a function recorded at one point, and `Layout`, a nest as
  one flat vector;
- `sparsity_patterns`: the entries that can be nonzero;
- `custom_derivatives`: derivatives written by hand, `is_operand` and `CustomRule`;
- `checkpoint`, `saved_for_backward`: what is computed again, and what is kept.
"""
