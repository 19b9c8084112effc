"""Capture: one real run of a function, and what has to be known of it to repeat it without Python.

`capture_run` runs the function on stand-ins for its arguments, while `capture` records plans and
guards, and notes what happens to generators, variables and tensors.
"""
