"""debug_nans: stop at the first op, forward or backward, that makes a NaN or an infinity."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from gradtape.errors import NonFiniteError
from gradtape.graph.lines import user_line
from gradtape.graph.node import LEAF, Node, Table, exchange
from gradtape.graph.program import program
from gradtape.graph.recording import Recording, Value, modes, state

__all__ = ["debug_nans"]


@contextlib.contextmanager
def debug_nans(infinities: bool = True) -> Iterator[None]:
    """Raise an error where a NaN or an infinity first appears, forward or backward.

    >>> x = gt.asarray(0.0)
    >>> try:
    ...     with gt.debug_nans():
    ...         y = gt.log(x) * 0.0
    ... except gt.errors.NonFiniteError as error:
    ...     print(str(error).partition(" at ")[0])
    debug_nans: log made -inf

    Every op is computed on its own line, which takes longer. An op of a gradient is named together
    with the op that it is the derivative of, and the line that recorded that one. With
    `infinities=False` only NaNs count.
    """
    state.cut()
    earlier = modes.handle_list
    watch = Watch(infinities)
    table = Table()
    table.origins = watch.origins
    before = exchange(table)

    class Watched(list[Any]):
        def append(self, handle: Any) -> None:
            super().append(handle)
            watch.see(handle)

    modes.handle_list = Watched
    state.recording = Recording()
    try:
        yield
    finally:
        modes.handle_list = earlier
        recording = state.recording
        recording.handles = list(recording.handles)
        with contextlib.suppress(NonFiniteError):
            state.cut()
        exchange(before)
        state.recording = Recording()


class Watch:
    """Looks at every value that is computed, and knows where each op was recorded."""

    def __init__(self, infinities: bool) -> None:
        self.infinities = infinities
        # The line of every op that was recorded, and for nodes of derivatives what they are of.
        self.lines: dict[Node, str] = {}
        self.origins: dict[Node, Node | None] = {}

    def see(self, handle: Any) -> None:
        """Compute what has just been recorded, and look at it."""
        node = handle.node
        self.lines.setdefault(node, user_line())
        recording = handle.recording
        # Before it is computed: a flush may end the recording.
        wanted = program([node], recording.values.keys())
        values = {found: _value(recording, found) for found in wanted.inputs}
        state.evaluate(handle)
        if not self._is_bad(handle.computed.array):
            return
        for found in wanted.nodes:
            arrays = [values[parent] for parent in found.inputs]
            with np.errstate(all="ignore"):
                values[found] = found.op.numpy(*arrays, **found.keywords)
            made = values[found] if type(found.spec) is tuple else (values[found],)
            if any(self._is_bad(array) for array in made):
                came_in = any(
                    self._is_bad(array) for array in arrays if isinstance(array, np.ndarray)
                )
                raise NonFiniteError(self._sentence(found, made, came_in))

    def _is_bad(self, array: Any) -> bool:
        array = np.asarray(array)
        if array.dtype.kind not in "fc":
            return False
        fine = np.isfinite(array) if self.infinities else ~np.isnan(array)
        return not bool(np.all(fine))

    def _sentence(self, node: Node, made: Any, came_in: bool) -> str:
        bad = next(array for array in map(np.asarray, made) if self._is_bad(array))
        chosen = bad[~np.isfinite(bad)] if self.infinities else bad[np.isnan(bad)]
        count = f" in {chosen.size} of {bad.size} elements" if bad.size > 1 else ""
        what = f"{node.op.name} made {chosen.reshape(-1)[0]}{count}"
        origin = self.origins.get(node)
        if origin is not None:
            line = self.lines.get(origin, "an unknown line")
            where = f"in the derivative of {origin.op.name}, recorded at {line}"
        else:
            where = f"at {self.lines.get(node, user_line())}"
        hint = " An operand was not finite already." if came_in else ""
        return (
            f"debug_nans: {what} {where}.{hint} Guard its operand, with gt.where on both sides "
            "or with a small constant."
        )


def _value(recording: Recording, node: Node) -> Any:
    if node in recording.values:
        return recording.values[node].array
    assert node.op is LEAF
    value = recording.leaves[node.params[0]]
    return value.array if type(value) is Value else np.asarray(value, node.dtype)
