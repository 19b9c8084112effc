"""Computes what is pending in a recording, and keeps what a later gradient needs.

Door, what other rooms import:

- `flush`: `flush`, `compute_handle`, `compute_pending` and `release`
- `bound_plans`: `BoundPlan` and `bind`, plans that run on the values of a recording
- `failures`: `Lines`, which adds the user's line to errors of ops that run late
"""
