"""Ops that carry rules or Python code written by users.

Door: `custom` and `custom_body` (derivatives and batch rules by hand), `callback` (Python inside
programs), `saving` (what a checkpoint keeps), `solutions` (equations solved when a program runs).
"""
