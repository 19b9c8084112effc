"""Loops, branches and maps over examples that are recorded as one op, and Python inside programs.

Other packages import:

- `branches`: `cond`, `switch`; `loops`: `while_loop`, `fori_loop`, `map`; `scan`,
  `associative_scan`: the functions of these names;
- `vmap`: `vmap`, `vectorized_map`; `custom_vmap`: a function with its own rule for many examples;
- `callbacks`: `numpy_function`, `py_function`, `pure_callback`;
- `traced_bodies`: `trace`, which makes a body of a function, for other ops that hold a program.
"""
