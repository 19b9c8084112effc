"""Ops that carry rules or Python code written by users.

Other packages import `custom` and `custom_body` (derivatives and batch rules by hand, values that a
checkpoint keeps), `callback` (Python inside programs), `solutions` (equations solved at run time).
"""
