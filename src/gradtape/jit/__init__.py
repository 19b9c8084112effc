"""Functions: gt.function, which replays compiled runs of a Python function.

A call of a `Function` (`function`) passes through four stages: `signature` sorts its arguments;
`captured` chooses whether to replay, to capture or to run Python, and compares captured runs;
`capture` runs the function and records it; `replay` repeats recorded paths without the function.
`guards` compares what the function names outside itself. `native` is a shortcut through all of
them. `explain` describes what was captured.

`prepared` has `gt.prepare_jacobian` and `gt.prepare_hessian`, which replay sparse evaluations by
`gt.function`.

Other packages import `function` (gt.function, Function, gt.set_recorder), `captured` (Contract)
and `prepared` (gt.prepare_jacobian).
"""
