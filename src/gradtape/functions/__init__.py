"""Functions: gt.function, which captures a Python function once and replays it in later calls.

A call of a `Function` (`function`) passes through four stages: `arguments` finds its signature;
`captured` chooses whether to replay, to capture or to run Python; `capture` runs the function and
records it; `replay` repeats captured runs without the function. `outside` knows what a run reads
besides its arguments, so that a replay can compare it. `native` is a shortcut through all of them.
`explain` keeps the history of a signature and tells it; `audit` runs replayed calls both ways.

`prepared` has `gt.prepare_jacobian` and `gt.prepare_hessian`, which replay sparse evaluations by
`gt.function`.

Other packages import `function` (gt.function, Function), `concrete_function`, `prepared`
(gt.prepare_jacobian), `arguments.tensor_spec` (gt.TensorSpec), `recorder_switch` (gt.set_recorder).
"""
