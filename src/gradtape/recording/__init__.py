"""What is recorded and not yet computed: leaves with values, applications in order, handles.

Other packages import:

- `record`: `record`, which applies an op to operands of any kind
- `operands`: `enter` and the rules for Python scalars and nests of tensors
- `value`, `handle`, `recording`: the classes `Value`, `Handle` and `Recording`
- `thread_state`: `state`, the recording and the entered tapes of the running thread
- `modes`: switches of the running thread, such as the eager debug mode
- `trace`: `Trace`, the recording of a function on arguments without values
- `capturing`: the capture of a `gt.function` that is running, if there is one
- `followed_number`: Python numbers that are inputs of a captured program
- `graft`, `traffic`: graphs moved between recordings; counts of what was recorded
- `parts`: copies of derivative nodes, made when a derivative is returned while a tape records
"""

from gradtape.recording.followed_number import Followed, plain
from gradtape.recording.handle import Handle
from gradtape.recording.operands import SCALARS, any_handle, enter
from gradtape.recording.record import record
from gradtape.recording.recording import Recording
from gradtape.recording.thread_state import state
from gradtape.recording.trace import Trace
from gradtape.recording.value import Content, LeafValue, Value, host_value

__all__ = [
    "Content", "Followed", "Handle", "LeafValue", "Recording", "SCALARS", "Trace", "Value",
    "any_handle", "enter", "host_value", "plain", "record", "state",
]  # fmt: skip
