"""What happened, and why: configuration, plans and kernels as text, NaNs, checks of ops.

The door, for other rooms:

- `plans_and_kernels`: `show_config`, `plan_of`, `kernels_of`;
- `debug_nans`: `debug_nans`;
- `check_op`: the checks behind `gt.extend`.
"""
