"""The observer of a captured run: which Python functions ran, and which C functions they called.

While the observer is entered, a profile function sees every call in this thread. Frames of trusted
modules are passed over. Of all others it notes the code and the globals; and of calls into C, those
that are not known to be pure, with the line.
"""

from __future__ import annotations

import dis
import gc
import sys
import types
from dataclasses import field
from types import CodeType, FrameType, TracebackType
from typing import Any

from gradtape.codegen.cpython import native_recorder
from gradtape.functions.outside.trusted_code import (
    DYNAMIC_BUILTINS,
    is_own_scope,
    is_pure_builtin,
    is_standard,
    is_trusted_module,
)
from gradtape.messages.log import log_record
from gradtape.ops.custom.callback import isolated
from gradtape.process.frames import current_line
from gradtape.process.records import dataclass
from gradtape.recording.unobserved import PASSED_OVER, Observer, pass_over
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable

# The function that calls callbacks, and the one in which a user's factory makes our log records.
_CALLBACK = isolated.__code__
_LOG_RECORD = log_record.__code__
# The functions that write tensors and variables as text, which sets no guard.
_TEXTS = frozenset(each.__repr__.__code__ for each in (Tensor, Variable)) | {
    Tensor.__format__.__code__
}
# The events as native code numbers them.
_EVENTS = {0: "call", 3: "return", 4: "c_call"}


@dataclass
class Observation:
    """What ran during one call of a function."""

    # Code that ran in earlier runs, and in this one, with the globals that it saw.
    earlier: dict[CodeType, dict[str, Any]] = field(default_factory=dict)
    executed: dict[CodeType, dict[str, Any]] = field(default_factory=dict)
    # Whether attributes were read by names that no code writes down.
    any_attribute: bool = False
    # The first call into C that is not known to be pure: what was called, and where.
    impure: tuple[str, str] | None = None

    def everything(self) -> dict[CodeType, dict[str, Any]]:
        """Code that ran in any run so far."""
        return self.earlier | self.executed

    def next_run(self) -> Observation:
        """The observation with which the next run begins: all code that has run so far."""
        return Observation(self.everything(), any_attribute=self.any_attribute)


class RunObserver(Observer):
    """Notes what a run executes; a context manager.

    >>> from gradtape.functions.outside.run_observer import Observation, RunObserver
    >>> observation = Observation()
    >>> with RunObserver(observation):
    ...     _ = (lambda x: sorted(x))([2, 1])
    >>> [code.co_name for code in observation.executed]
    ['<lambda>']
    """

    def __init__(self, observation: Observation) -> None:
        self.observation = observation
        self._before: Any = None
        # How deep the run is inside imports, log records of ours and callbacks of the garbage
        # collector, which are nobody's reading, and inside callbacks of the user, which replays
        # call, too.
        self._elsewhere = 0
        self._collecting = {getattr(each, "__code__", None) for each in gc.callbacks}
        self._verdicts: dict[Any, bool] = {}
        # Whether native code looks first; and what it calls, which is kept here.
        self.is_native = False
        self._numbered = self._look_at_number

    def __enter__(self) -> RunObserver:
        self._before = sys.getprofile()
        if hasattr(self._before, "disable"):
            self._before.disable()  # cProfile, which cannot be called from here: it pauses
        self.is_native = self._before is None and native_recorder.installed()
        self.resume()
        return self

    def pause(self) -> None:
        """Observe nothing until `resume`."""
        if self.is_native:
            native_recorder.observe_with(None)
        else:
            sys.setprofile(None)

    def resume(self) -> None:
        """Observe from now on."""
        if self.is_native:
            native_recorder.observe_with(self._numbered)
        else:
            sys.setprofile(self._quick_look if self._before is None else self._look)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.pause()
        if hasattr(self._before, "enable"):
            self._before.enable()
        elif self._before is not None:
            sys.setprofile(self._before)

    def _quick_look(self, frame: FrameType, event: str, arg: Any) -> None:
        # Nearly all events are of the library's own code.
        if id(frame.f_code) not in PASSED_OVER:
            self._look(frame, event, arg)

    def _look_at_number(self, frame: FrameType, event: Any, arg: Any = None) -> None:
        """What native code calls, after it has looked who is passed over."""
        self._look(frame, _EVENTS.get(event, event), arg)

    def _look(self, frame: FrameType, event: str, arg: Any) -> None:
        if self._before is not None and callable(self._before):
            self._before(frame, event, arg)  # the user's profiler goes on
        code = frame.f_code
        if event == "call":
            if self._is_elsewhere(code):
                self._elsewhere += 1
                if code not in self._collecting:
                    self._check_import(frame)
            elif code in _TEXTS:
                self._wrote(frame)
            elif not self._elsewhere and code not in self.observation.executed:
                self._entered(frame)
        elif event == "return":
            if self._elsewhere and self._is_elsewhere(code):
                self._elsewhere -= 1
        elif event == "c_call" and not self._elsewhere and code in self.observation.executed:
            self._called(frame, arg)

    def _is_elsewhere(self, code: CodeType) -> bool:
        if code is _CALLBACK or code is _LOG_RECORD:
            return True
        return code.co_filename.startswith("<frozen importlib") or code in self._collecting

    def _entered(self, frame: FrameType) -> None:
        module = frame.f_globals.get("__name__")
        if isinstance(module, str):
            if is_trusted_module(module):
                if not frame.f_code.co_filename.startswith("<"):
                    pass_over(frame.f_code)
                return
            if is_standard(frame.f_globals) and self._user_of(frame) is None:
                return  # the library calls on
        self.observation.executed[frame.f_code] = frame.f_globals

    def _user_of(self, frame: FrameType) -> FrameType | None:
        """The frame of the user's that called, through nothing but the standard library."""
        caller = frame.f_back
        while caller is not None and caller.f_code not in self.observation.executed:
            if not is_standard(caller.f_globals):
                return None
            caller = caller.f_back
        return caller

    def _check_import(self, frame: FrameType) -> None:
        """An import that is no `import` statement may give any module."""
        caller = frame.f_back
        if caller is not None and caller.f_code in self.observation.executed:
            operation = dis.opname[caller.f_code.co_code[caller.f_lasti]]
            if operation != "IMPORT_NAME":
                self._note_impure("an import by a computed name", caller)

    def _wrote(self, frame: FrameType) -> None:
        user = self._user_of(frame)
        if user is not None:
            self._note_impure("the text of a tensor", user)

    def _note_impure(self, what: str, frame: FrameType) -> None:
        if self.observation.impure is None:
            self.observation.impure = (what, f"{frame.f_code.co_filename}:{current_line(frame)}")

    def _called(self, frame: FrameType, function: Any) -> None:
        owner = getattr(function, "__self__", None)
        name = getattr(function, "__name__", "")
        if is_own_scope(frame.f_globals):
            return  # layers and optimisers call what is pure
        if isinstance(owner, types.ModuleType):
            key: tuple[Any, str] = (owner.__name__, name)
            if owner.__name__ == "builtins" and name in DYNAMIC_BUILTINS:
                self.observation.any_attribute |= not is_own_scope(frame.f_globals)
        else:
            key = (owner if isinstance(owner, type) else type(owner), name)
        pure = self._verdicts.get(key)
        if pure is None:
            pure = self._verdicts[key] = is_pure_builtin(function)
        if not pure:
            shown = getattr(function, "__qualname__", name)
            if isinstance(owner, types.ModuleType) and owner.__name__ != "builtins":
                shown = f"{owner.__name__}.{name}"
            self._note_impure(shown, frame)


# They begin unobserved and end observed, or the other way round.
pass_over(RunObserver.pause.__code__)
pass_over(RunObserver.resume.__code__)
