"""Capture: one real run of a function, and what has to be known of it to repeat it without Python.

`capture_run` runs the function on `stand_ins` for its arguments while `capture` records plans and
guards. `captured_draws`, `captured_variables` and `captured_tensors` note what happens to state;
`returned_values` finds the sources of the results, `containers` the lists and dicts among them.
"""
