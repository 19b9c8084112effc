"""Functions: gt.function, which captures a Python function once and replays it in later calls.

One call, in the order of the modules:

- arguments: `signature` sorts them into inputs and static values, `argument_keys` and `tensor_spec`
  say what stands for each in the key of a signature;
- choice: `captured` replays, captures, or runs Python; `explain` keeps and tells the history;
- capture: `capture_run` runs the function on `stand_ins` while `capture` records, with the records
  `captured_draws`, `captured_variables` and `captured_tensors`; `returned_values` finds the sources
  of the results; `guards` and `outside_names` note what is read outside;
- replay: `captured_steps` holds a tree of `steps` over `sources`; `replay_source` writes it as one
  Python function; `joined_path` joins the steps of a path that calls keep taking;
- native call: `native_call` describes a signature to native code, `call_slot` installs that code.

Door: `function` (gt.function, Function), `concrete_function`, `tensor_spec` (gt.TensorSpec),
`recorder_switch` (gt.set_recorder).
"""
