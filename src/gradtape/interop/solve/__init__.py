"""Roots, fixed points and minima with their derivatives, linear maps, and adapters for SciPy.

Other packages import:

- `implicit`: `root`, `fixed_point`, `minimize`;
- `linear_operators`: `linearize`, and derivatives as SciPy's `LinearOperator`;
- `scipy_bridges`: `objective`, `residuals`, `ode`.

`searches` and `solvers` are how `implicit` finds a solution.
"""
