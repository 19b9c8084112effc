"""What is recorded and not yet computed: leaves with values, applications in order, handles.

Door, what other rooms import:

- `record`: `record`, which applies an op to operands of any kind
- `operands`: `enter` and the rules for Python scalars and nests of tensors
- `value`, `handle`, `recording`: the classes `Value`, `Handle` and `Recording`
- `thread_state`: `state`, the recording and the entered tapes of the running thread
- `modes`: switches of the running thread, such as the eager debug mode
- `trace`: `Trace`, the recording of a function on arguments without values
- `capturing`: the capture of a `gt.function` that is running, if there is one
- `deferred_number`: Python numbers that are inputs of a captured program
- `graft`, `traffic`: graphs moved between recordings; counts of what was recorded
"""
