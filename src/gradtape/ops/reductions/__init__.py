"""Ops that combine elements along axes.

Public interface: the functions of each module, and the Ops of `reduction` and `extrema`;
`cumulative` holds the running sums and the linear recurrence.
"""
