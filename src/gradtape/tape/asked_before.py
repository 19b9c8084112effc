"""Questions that were asked before: the same answer, in one look-up.

A training loop records the same graph again and asks for the same derivative. The nodes are the
same objects then, because a table interns them, so that the target and the sources identify the
answer, unless something besides them can matter for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradtape.ir.node import Node
from gradtape.tensor.tensor import Tensor
from gradtape.trace.recording import Recording
from gradtape.trace.thread_state import state

if TYPE_CHECKING:
    from gradtape.tape.tape_jacobians import Jacobians

# Defaults of arguments: an argument that was left out is one of these objects.
NONE, ZERO, AUTO = "none", "zero", "auto"


def question_of(
    tape: Jacobians, target: object, sources: Sequence[object]
) -> tuple[Node, ...] | None:
    """The nodes of a target and its sources, if nothing else can matter for the answer.

    That holds for the usual tape: it was entered once and is left, all of its recording is in
    its window, the sources are watched, and no tape records now. None for any other.
    """
    recording, windows = tape._recording, tape._windows
    log = state.recording.log
    if (
        tape._active
        or tape._consumed
        or type(recording) is not Recording
        or recording is not state.recording
        or state.tapes
        or type(target) is not Tensor
        or target.recording is not recording
        or (
            recording.log.returned is not None
            and not recording.log.returned.lie_before(windows[-1][1])
        )
        or log.placed
        or recording.rules
        or len(windows) != 1
        or windows[0] != [0, len(log)]
        or not target.node.spec.inexact
    ):
        return None
    nodes: list[Node] = [target.node]
    for leaf in sources:
        entry = tape._watched.get(id(leaf))
        if entry is None or entry[0] is not leaf:
            return None
        if type(leaf) is not Tensor:
            variable = tape._variables.get(getattr(leaf, "number", -1))
            if variable is None or variable[1] is not entry[1]:
                return None
        nodes.append(entry[1])
    return tuple(nodes)
