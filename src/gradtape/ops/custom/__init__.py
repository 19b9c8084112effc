"""Ops that carry rules or Python code written by users.

Other packages import `custom` and `custom_body` (derivatives and batch rules by hand), `callback`
(Python inside programs), `saving` (values that a checkpoint keeps), `solutions` (equations solved
at run time).
"""
