"""Variable: a named, shaped, mutable cell that holds a value; optimisers update it."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Never

import numpy as np

from gradtape.argument_checks import as_flag
from gradtape.concurrency import new_lock
from gradtape.config import MOST_WAITING_VARIABLES
from gradtape.display import Displayed, Fields
from gradtape.dtypes import DType, as_dtype
from gradtape.errors import DtypeError, NoValueError, ShapeError
from gradtape.ir.node import Node
from gradtape.ops.arrays import indexing
from gradtape.ops.elementwise.arithmetic import IDENTITY, identity
from gradtape.ops.families.casting import cast
from gradtape.runtime.flush import compute_handle, flush
from gradtape.suggestions import unexpected_arguments
from gradtape.tensor.operators import Operators
from gradtape.tensor.tensor import Tensor, asarray
from gradtape.trace.capturing import capturing, note_text
from gradtape.trace.change_counter import tell_change
from gradtape.trace.recording import Recording, state
from gradtape.trace.trace import Trace
from gradtape.trace.value import UNENTERED, Value

if TYPE_CHECKING:
    from gradtape.dtypes import DTypeLike
    from gradtape.tensor.tensor_like import TensorLike

__all__ = ["Variable"]

_numbers = itertools.count()


class Variable(Operators, Displayed):
    """A mutable cell for a tensor of fixed shape and dtype.

    Updates are recorded, not run: all pending ones run in one plan when a later step reads one of
    the variables, or when something is observed.

    >>> v = gt.Variable([1.0, 2.0], name="weights")
    >>> _ = v.assign_add([1.0, 1.0])
    >>> v
    Variable(weights, [2., 3.], shape=(2,), dtype=float64)
    """

    __slots__ = {
        "__weakref__": None,
        "_assigned": None,
        "_epoch": None,
        "_handle": None,
        "_lock": None,
        "_steady": None,
        "_trainable": None,
        "dtype": "The dtype, which never changes.",
        "name": "The name, in errors, reports and files.",
        "number": "The order in which variables were made.",
        "shape": "The shape, which never changes.",
    }

    # Recorders read these of every operand. A variable has no node of its own, so the values here
    # make them call `enter`.
    recording = None
    computed = UNENTERED
    # The class of the results of ops on a variable, and of the tensors that reading it gives.
    result_class = Tensor
    value_class = Tensor
    # If true, a read outside any tape still counts as a read of this variable when pending work is
    # differentiated.
    reads_are_recorded = False

    def __init__(
        self,
        value: TensorLike,
        trainable: bool = True,
        name: str | None = None,
        dtype: DTypeLike | None = None,
        **unknown: Never,
    ) -> None:
        if unknown:
            raise unexpected_arguments((), unknown)
        start = asarray(value, dtype=dtype)
        self.number = next(_numbers)
        self.name = name if name is not None else f"variable_{self.number}"
        self._trainable = trainable is True or as_flag("Variable: trainable", trainable)
        self.shape = start.shape
        self.dtype = start.dtype
        # Whether it was ever assigned; whether a whole step has read it without assigning it.
        self._assigned = False
        self._steady = False
        self._epoch = state.epoch
        # From `new_lock`: a forked child finds it free, even if a thread of the parent held it.
        self._lock = new_lock()
        recording = state.recording
        if isinstance(recording, Trace):
            self._handle = _concrete(self.name, recording, start)
            recording.make(self)
        else:
            # In a captured function the start may be another value in the next call.
            self._handle = identity(start) if recording.capturing else _own(start)
        capture = capturing(recording)
        if capture is not None:
            capture.variables.made.add(self)

    # Reading.

    def _set_trainable(self, trainable: bool) -> None:
        self._trainable = trainable
        tell_change()

    # Read in C: tapes read it at every read of a variable.
    trainable = property(
        attrgetter("_trainable"),
        _set_trainable,
        doc="Whether tapes watch it by default, and optimisers update it.",
    )

    @property
    def value(self) -> Tensor:
        """The current value, as a tensor.

        >>> gt.Variable(2.0).value
        Tensor(2., shape=(), dtype=float64)
        """
        recording, handle = state.recording, self._handle
        free = not state.tapes and type(recording) is Recording and not self.reads_are_recorded
        if free and handle.recording is not recording:
            # No tape and no trace follows this read, so nothing is recorded.
            if handle.computed is None:
                compute_handle(handle)
            self._note(state.recording)
            return self.value_class(None, None, _apart(handle.computed))
        node = None
        while node is None or recording is not state.recording:
            # Read together with its node: another thread may assign meanwhile.
            recording, handle = state.recording, self._handle
            node = self.enter(recording, handle)
        if isinstance(recording, Trace) and recording.is_bound(self):
            return recording.hold(node, self.value_class)
        if recording.outer is None and (state.tapes or recording.capturing):
            # The tensor must not count as the variable for tapes that begin later.
            node = recording.application(IDENTITY, (node,), ())
        known = handle.computed is not None and handle.recording is not recording
        if known and not recording.capturing:
            return self.value_class(node, recording, _apart(handle.computed))
        found = recording.hold(node, self.value_class)
        # A signal handler that computes may have closed the recording: read once more.
        return self.value if recording.closed and found.computed is None else found

    def enter(self, recording: Recording, handle: Tensor | None = None) -> Node:
        """The node of the value in `recording`; entered tapes note the read.

        `handle` is what the variable holds, if the caller has read that already.
        """
        if handle is None:
            handle = self._handle
        traced = isinstance(recording, Trace) and handle.recording is not recording
        pending = handle.computed is None and handle.recording is state.recording
        if pending and not traced and self._begins_a_step(state.recording):
            flush(state.recording)
        if handle.recording is recording:
            node: Node = handle.node
        elif recording.capturing:
            node = recording.capturing.enter_variable(self, handle)
        elif isinstance(recording, Trace):
            bound = recording.bound(self)
            node = recording.capture(self) if bound is None else bound.node
        elif handle.recording is None and handle.computed is not None:
            node = recording.enter_value(handle.computed)
        else:
            node = recording.enter_other(handle)
        if recording is state.recording:
            may_wait = self._trainable or self._assigned
            if may_wait and not (self._steady or pending or traced):
                recording.unassigned.add(self)
            for tape in state.tapes:
                tape.note_read(self, node)
        return node

    def enter_unnoticed(self, recording: Recording) -> Node:
        """The node of the current value; no tape notes the read."""
        handle = self._handle
        if handle.recording is recording:
            return handle.node
        if recording.capturing:
            return recording.capturing.enter_variable(self, handle)
        if isinstance(recording, Trace):
            bound = recording.bound(self)
            return recording.capture_unnoticed(self) if bound is None else bound.node
        return recording.enter_other(handle)

    def _note(self, recording: Recording) -> None:
        """Remember the read if an update may follow in the same step."""
        waiting = recording.unassigned
        if len(waiting) > MOST_WAITING_VARIABLES and not recording.log:
            # Variables are read one after another and nothing is computed: no step has begun.
            waiting.clear()
        if not self._steady and (self._trainable or self._assigned):
            waiting.add(self)

    def _begins_a_step(self, recording: Recording) -> bool:
        """Whether reading this pending update is where the next step begins.

        Within a step an optimiser reads variables that it has just assigned (a momentum). That must
        not split the step's plan: as long as a variable that was read waits for its update, the
        step goes on, unless a tape was entered in between.
        """
        if state.tapes or recording.capturing:
            return False
        return self._epoch != state.epoch or not recording.unassigned

    def numpy(self) -> np.ndarray:
        """The current value as a read-only NumPy array."""
        return self.value.numpy()

    def _look(self) -> np.ndarray:
        return self.value._look()

    def _as_tensor(self) -> Tensor:
        return self.value

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return self.value.__array__(dtype, copy)

    def __repr__(self) -> str:
        note_text()
        values = np.array2string(_peek(self), separator=", ", prefix=f"Variable({self.name}, ")
        return f"Variable({self.name}, {values}, shape={self.shape}, dtype={self.dtype})"

    def _fields(self) -> Fields:
        values = np.array2string(_peek(self), separator=", ", threshold=200)
        fields = [(None, values), ("name", self.name), ("shape", self.shape), ("dtype", self.dtype)]
        return fields if self._trainable else [*fields, ("trainable", False)]

    # Writing.

    def assign(self, value: TensorLike) -> Variable:
        """Replace the value; shape and dtype stay.

        >>> float(gt.Variable(1.0).assign(3.0).value)
        3.0
        """
        new = value if isinstance(value, Tensor) else asarray(value)
        if new.shape != self.shape:
            raise ShapeError(
                f"assign: {self.name} has shape {self.shape} and the new value {new.shape}. "
                "A variable keeps its shape; broadcast or reshape the value."
            )
        if new.dtype != self.dtype:
            if not np.can_cast(new.dtype, self.dtype, "same_kind"):
                raise DtypeError(
                    f"assign: {self.name} has dtype {self.dtype} and the new value {new.dtype}. "
                    "Cast the value first."
                )
            new = cast(new, self.dtype)
        self.store(new)
        return self

    def store(self, new: Tensor) -> None:
        """Hold another tensor of the same shape and dtype."""
        recording = state.recording
        if isinstance(recording, Trace):
            if not recording.bind(self, new):
                recording.is_read_as(self._handle, new)
            return
        old = self._handle
        free = not state.tapes and not recording.capturing
        if old.computed is None and old.recording is recording and free:
            # A second assignment, and no read in between began a step: this is a whole cycle of a
            # loop. A variable that was read in it and not assigned is a constant of the loop.
            for variable in recording.unassigned:
                variable._steady = True
            flush(recording)
        # Under a tape the assignment is an application of its own, so derivatives pass through it.
        handle = _own(new) if free else identity(new)
        if recording.capturing:
            recording.capturing.variables.assign(self, old, handle)
        self._handle = handle
        self._epoch = state.epoch
        self._assigned = True
        self._steady = False
        recording = state.recording
        recording.unassigned.discard(self)
        if handle.computed is None:
            recording.updates += 1

    @property
    def lock(self) -> threading.RLock:
        """The lock to hold while the value is read and assigned in one step."""
        return self._lock

    def current(self) -> Value:
        """The current value, computed, without telling any tape."""
        handle = self._handle
        if handle.computed is None:
            compute_handle(handle)
        return handle.computed  # type: ignore[return-value]

    def restore(self, handle: Tensor, latest: object) -> None:
        """Undo assignments: hold `handle` again, unless another thread has assigned since."""
        with self._lock:
            if self._handle is latest:
                self._handle = handle

    @staticmethod
    def hold_again(variables: Sequence[Variable], handles: Sequence[Tensor]) -> None:
        """Let variables hold what they held before, in one step that nothing can interrupt."""
        deque(map(_set_handle, variables, handles), maxlen=0)

    def assign_add(self, delta: TensorLike) -> Variable:
        """Add to the value.

        >>> float(gt.Variable(1.0).assign_add(2.0).value)
        3.0
        """
        return self._update(delta, 1)

    def assign_sub(self, delta: TensorLike) -> Variable:
        """Subtract from the value.

        >>> float(gt.Variable(1.0).assign_sub(2.0).value)
        -1.0
        """
        return self._update(delta, -1)

    def _update(self, delta: TensorLike, sign: int) -> Variable:
        with self._lock:
            rows: tuple[Tensor, Tensor] | None = getattr(delta, "rows", None)
            if rows is not None:
                indices, values = rows
                new = indexing.scatter_add(self.value, indices, values if sign > 0 else -values)
            else:
                try:
                    new = self.value + delta if sign > 0 else self.value - delta
                except TypeError:
                    # Python names the operator only; `asarray` says what is wrong with the value.
                    asarray(delta)
                    raise
            return self.assign(new)

    def __setitem__(self, key: object, value: TensorLike) -> None:
        with self._lock:
            self.assign(indexing.set_item(self.value, key, value))

    # Unlike `+`, which gives a tensor, these write to the variable and give it back.

    def __iadd__(self, delta: TensorLike) -> Variable:  # type: ignore[override]
        return self.assign_add(delta)

    def __isub__(self, delta: TensorLike) -> Variable:  # type: ignore[override]
        return self.assign_sub(delta)

    def __imul__(self, factor: TensorLike) -> Variable:  # type: ignore[override]
        with self._lock:
            return self.assign(self.value * factor)

    def __itruediv__(self, factor: TensorLike) -> Variable:  # type: ignore[override]
        with self._lock:
            return self.assign(self.value / factor)

    # Copies are by value: a copied variable is another cell.

    def __deepcopy__(self, memo: object) -> Variable:
        value = self.value if state.recording.capturing else np.array(_peek(self))
        return Variable(value, self.trainable, self.name, self.dtype)

    def __copy__(self) -> Variable:
        return self.__deepcopy__(None)

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (np.array(self.numpy()), self.trainable, self.name, as_dtype(self.dtype))


_set_handle = Variable.__dict__["_handle"].__set__


def _apart(value: Value | None) -> Value:
    """The same content as another value, so that later tapes do not take a read for the variable.

    A recording finds a value by its identity and enters it as one leaf.
    """
    assert value is not None
    return Value(value.content, value.spec)


def _own(tensor: Tensor) -> Tensor:
    """A handle that only the variable holds, on a value that is not a leaf of another tensor."""
    recording, node = tensor.recording, tensor.node
    if tensor.computed is None:
        assert recording is not None
        handle = recording.hold(node, Tensor)
        if handle.computed is not None or not recording.closed:
            return handle
        # A signal handler that computes has closed the recording: then the tensor has its value.
    value = tensor.computed
    assert value is not None
    return Tensor(None, None, Value(value.array, value.spec))


def _concrete(name: str, trace: Trace, tensor: Tensor) -> Tensor:
    """The first value of a variable made inside a traced function: one for all examples."""
    if tensor.recording is trace:
        if trace.lacks_value(tensor.node):
            raise NoValueError(
                f"Variable: {name} would be made inside {trace.name}, from a tensor that has no "
                "value there. Make it outside, and assign it inside."
            )
        compute_handle(tensor)
    assert tensor.computed is not None
    return Tensor(None, None, Value(tensor.computed.array, tensor.spec))


def _peek(variable: Variable) -> np.ndarray:
    """The value without telling any tape."""
    return variable.current().array


def _restore(value: np.ndarray, trainable: bool, name: str, dtype: DType) -> Variable:
    return Variable(value, trainable, name, dtype)
