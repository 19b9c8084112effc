"""Replay: captured runs as a tree of steps, and the one writer of functions that replay it.

`sources` say where a call finds each value, `steps` are the plans and guards between them,
`replay_source` writes a tree as one Python function, `joined_path` turns a path that calls keep
taking into a single step, and `captured_steps` holds all of it for one signature.
"""
