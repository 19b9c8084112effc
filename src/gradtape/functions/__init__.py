"""Functions: gt.function, which captures a Python function once and replays it in later calls.

A call of a `Function` (`function`) passes through four rooms: `arguments` finds its signature;
`captured` chooses whether to replay, to capture or to run Python; `capture` runs the function and
records it; `replay` repeats captured runs without the function. `outside` knows what a run reads
besides its arguments, so that a replay can compare it. `native` is a shortcut through all of them.
`explain` keeps the history of a signature and tells it; `audit` runs replayed calls both ways.

`prepared` has derivatives that are prepared once: their evaluations are captured functions.

Door: `function` (gt.function, Function), `concrete_function`, `prepared` (gt.prepare_jacobian),
`arguments.tensor_spec` (gt.TensorSpec), `recorder_switch` (gt.set_recorder).
"""
