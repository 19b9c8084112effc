"""The recorded and not yet computed work: leaves with values, applications in order, handles.

Other packages import:

- `record`: `record`, which applies an op to operands of any kind, and `enter`, which gives the node
  of an operand
- `value`: the classes `Value` and `Handle`
- `recording`: `Recording`, and `state`, the recording and the entered tapes of the running thread
- `modes`: switches of the running thread, such as the eager debug mode
- `trace`: `Trace`, the recording of a function on arguments without values
- `capturing`: the capture of a `gt.function` that is running, if there is one
- `followed_number`: Python numbers that are inputs of a captured program
- `copy_between_recordings`: derivatives and applications of one recording copied into another
- `returned_nodes`: copies of derivative nodes, made when a derivative is returned while a tape
  records
"""

from gradtape.trace.followed_number import Followed, plain
from gradtape.trace.record import SCALARS, any_handle, enter, record
from gradtape.trace.recording import Recording, state
from gradtape.trace.trace import Trace
from gradtape.trace.value import Content, Handle, LeafValue, Value, host_value
