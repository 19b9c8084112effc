"""Switch: which recorder runs, and why.

`GRADTAPE_RECORDER` and `gt.set_recorder` choose `auto`, `python` or `native`. With `auto` the
native recorder waits until the compiler is loaded for other reasons and enough was recorded to pay
for compiling the recorder, too. Native calls of functions follow the same switch.
"""

from __future__ import annotations

import math
import warnings

from gradtape.compiler.cpython import native_recorder
from gradtape.compiler.cpython.objects import LAYOUT_DIFFERS, unsupported
from gradtape.compiler.objects import llvm_library
from gradtape.concurrency import is_interrupt
from gradtape.config import APPLICATIONS_THAT_PAY_FOR_RECORDER, RECORDINGS_BETWEEN_LOOKS, variable
from gradtape.trace.recording import recorded
from gradtape.trace.value import Handle

RECORDERS = ("auto", "python", "native")
MODE = variable("RECORDER", "auto", RECORDERS)


class _Process:
    """State of this process: whether it compiles at all, and its failures."""

    compiling = False
    failure: str | None = None


def set_mode(mode: str) -> None:
    """Choose the recorder from now on, for all threads."""
    global MODE
    if mode not in RECORDERS:
        raise ValueError(f"set_recorder: {mode!r} is unknown. Use 'auto', 'python' or 'native'.")
    if mode == "native":
        reason = None if _Process.compiling else _NOTHING_COMPILED
        reason = reason or native_recorder.install()
        if reason is not None:
            raise RuntimeError(
                f"set_recorder: 'native' cannot be used: {reason}. Use 'auto' or 'python'."
            )
        _Process.failure = None
    MODE = mode
    recorded.due = math.inf
    if mode == "python":
        native_recorder.uninstall()
    elif not native_recorder.installed():
        _consider()


_NOTHING_COMPILED = "GRADTAPE_JIT=off, so nothing is compiled"


def offer(tensor: type[Handle], compiling: bool) -> None:
    """Called once at import, with the class whose operators record.

    `compiling` says whether anything is compiled at all.
    """
    native_recorder.TensorClass.kind = tensor
    _Process.compiling = compiling
    _consider()


def _consider() -> None:
    """Let `consider_compiling` be called, unless the mode is "python"."""
    if MODE != "python" and _Process.compiling:
        recorded.due = recorded.recordings + (1 if MODE == "native" else RECORDINGS_BETWEEN_LOOKS)


def why_python() -> str | None:
    """Why recording happens in Python; None if the native recorder is in place."""
    if native_recorder.installed():
        return None
    if MODE == "python":
        return "chosen by GRADTAPE_RECORDER or gt.set_recorder"
    if not _Process.compiling:
        return _NOTHING_COMPILED
    reason = _Process.failure or unsupported()
    if reason is None and native_recorder.offsets() is None:
        reason = LAYOUT_DIFFERS
    return reason or "the native recorder is compiled after more ops"


def _fail(error: BaseException) -> None:
    _Process.failure = f"it could not be compiled: {error!r}"
    # A shortcut that cannot be taken is no reason to stop.
    warnings.warn(
        f"the native recorder could not be compiled: {error!r}. Recording goes on in Python; "
        "GRADTAPE_RECORDER=python does not try.",
        stacklevel=3,
    )


def consider_compiling() -> None:
    """Called every few recordings, until the native recorder is worth compiling."""
    if MODE == "python":
        recorded.due = math.inf
        return
    pays = llvm_library.is_open() and recorded.applications >= APPLICATIONS_THAT_PAY_FOR_RECORDER
    if MODE != "native" and not pays:
        recorded.due = recorded.recordings + RECORDINGS_BETWEEN_LOOKS
        return
    recorded.due = math.inf
    # A finaliser may come here in the middle of a compilation: it must not wait for others.
    if native_recorder.lock.acquire(blocking=False):
        try:
            _Process.failure = native_recorder.install()
        except BaseException as error:
            if is_interrupt(error):
                recorded.due = recorded.recordings + RECORDINGS_BETWEEN_LOOKS
                raise
            _fail(error)
        finally:
            native_recorder.lock.release()
