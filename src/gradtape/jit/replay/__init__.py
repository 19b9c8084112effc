"""Replay: captured runs as a tree of steps.

`steps` has the sources of values in a call, and the plans and guards between them, `same_path`
compares two runs, and `captured_steps` holds all of it for one signature; it turns a
path that calls keep taking into a single step.
"""
