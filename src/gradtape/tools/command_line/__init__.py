"""The command line: `gradtape profile script.py`, and what helps to find out what a machine does.

The entry point is `main.main`. Each command is a module with `add`, which declares its options,
and `run`, which gives the exit code: 0 is fine, 1 a fault that was found, 2 a wrong call.
"""
