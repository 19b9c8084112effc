"""Replay: captured runs as a tree of steps.

`sources` say where a call finds each value, `steps` are the plans and guards between them,
`same_path` compares two runs, and `captured_steps` holds all of it for one signature; it turns a
path that calls keep taking into a single step.
"""
