"""Tools for users: configuration, plans and kernels as text, NaNs, checks of ops, profiles.

Other packages import:

- `plans_and_kernels`: `show_config`, `plan_of`, `kernels_of`;
- `debug_nans`: `debug_nans`;
- `check_op`: the checks behind `gt.extend`;
- `profiler`: `gt.profile`, which measures a program; its `formats` print tables and units;
- `page`: a profile as an HTML page.
"""
