"""Steps of a plan that calls NumPy between native stretches, or whose outputs include views."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.graph.lines import mark
from gradtape.graph.node import Node
from gradtape.ops.families.access import row_major, whole
from gradtape.recording.value import Content, Value
from gradtape.runtime.buffer_pool import Buffer, array
from gradtape.runtime.lowered_program import LoweredProgram, NumpyCall
from gradtape.runtime.plan import Input, RunMemory

# The buffers and arrays of one run: written outputs, results of NumPy calls, and the arena.
Alive = dict[Node | str, Any]


class MixedSteps:
    """Runs steps in turn, and finds values by node, wherever they lie."""

    def __init__(
        self, lowered: LoweredProgram, steps: Sequence[Callable[[int], None] | NumpyCall]
    ) -> None:
        self._lowered = lowered
        self._steps = steps
        self._position = {node: index for index, node in enumerate(lowered.program.inputs)}
        same = lowered.outputs.same
        self._outputs = [same.get(node, node) for node in lowered.program.outputs]

    def run(
        self,
        inputs: Sequence[Input],
        run_memory: RunMemory,
        arena: Buffer | None,
        buffers: Sequence[Buffer],
    ) -> list[Content]:
        """Run all steps on slots that are filled; gives the content of each output."""
        memory, base = run_memory
        alive: Alive = dict(zip(self._lowered.outputs.written, buffers, strict=True))
        alive["arena"] = arena
        for step in self._steps:
            if isinstance(step, NumpyCall):
                self._call(step, inputs, memory, alive)
            else:
                step(base)
        found = {
            node: self._output(node, how, inputs, alive)
            for node, how in self._lowered.outputs.how.items()
        }
        return [found[node] for node in self._outputs]

    def _call(self, step: NumpyCall, inputs: Sequence[Input], memory: Any, alive: Alive) -> None:
        node = step.node
        arrays = [self._array(parent, inputs, alive) for parent in node.inputs]
        try:
            with np.errstate(all="ignore"):
                result = node.op.numpy(*arrays, **node.keywords)
        except Exception as error:
            mark(error, node)
            raise
        if type(node.spec) is tuple:
            # Views of memory that later steps use again must become values of their own.
            alive[node] = tuple(np.array(part) for part in result)
        elif step.placed:  # a loop that could not be compiled: its result has a place already
            self._array(node, inputs, alive)[...] = result
        else:
            if isinstance(result, np.ndarray) and not result.flags.owndata:
                result = np.array(result)
            result = np.ascontiguousarray(result, node.dtype).reshape(node.shape)
            alive[node] = result
            struct.pack_into("=q", memory, 8 * self._lowered.place[node][0], result.ctypes.data)

    def _array(self, node: Node, inputs: Sequence[Input], alive: Alive) -> Any:
        """A value as a NumPy array, for a NumPy call or as an output; a tuple for several."""
        if type(node.spec) is tuple:
            return alive[node]
        fused = self._lowered.fused
        if node in fused.constants:
            shape, value, dtype = node.params
            return np.full(shape, value, dtype)
        found = fused.access.get(node) or whole(node)
        base = found.base
        flat = self._memory_of(base, inputs, alive)
        if found.strides == row_major(found.shape) and found.shape == base.shape:
            return flat
        size = base.dtype.itemsize
        flat = np.ascontiguousarray(flat).reshape(-1)[found.offset :]
        return np.lib.stride_tricks.as_strided(
            flat, found.shape, [size * s for s in found.strides], writeable=False
        )

    def _memory_of(self, base: Node, inputs: Sequence[Input], alive: Alive) -> np.ndarray:
        """The array of a node that is not a view."""
        lowered = self._lowered
        if base in self._position:
            value = inputs[self._position[base]]
            return value.array if type(value) is Value else np.asarray(value, base.dtype)
        if base in lowered.fixed:
            return lowered.fixed[base]
        if base in alive:
            held = alive[base]
            return held if isinstance(held, np.ndarray) else array(held, base.shape, base.dtype)
        if base in lowered.outputs.parts:
            joined, offset = lowered.outputs.place(base)
            block = array(alive[joined], (joined.spec.nbytes,), np.uint8)
        else:
            _, offset = lowered.place[base]
            block = array(alive["arena"], (lowered.arena_size,), np.uint8)
        part: np.ndarray = block[offset : offset + base.spec.nbytes].view(base.dtype)
        return part.reshape(base.shape)

    def _output(self, node: Node, how: str, inputs: Sequence[Input], alive: Alive) -> Content:
        if how == "written":
            written: Buffer = alive[node]
            return written
        result: np.ndarray = self._array(node, inputs, alive)
        return result if how == "called" else np.array(result)
