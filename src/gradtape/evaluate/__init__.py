"""Evaluate computes the pending work of a recording, and keeps the residuals of live tapes.

Other packages import:

- `flush`: `flush`, `compute_handle`, `compute_pending` and `release`
- `bound_plans`: `BoundPlan` and `bind`, plans that run on the values of a recording
- `failures`: `Lines`, which adds the user's line to errors of ops that run late
"""
