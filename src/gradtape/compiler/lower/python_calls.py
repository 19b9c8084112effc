"""Ops without native code: the plan calls their NumPy rule in Python, on the memory of the run."""

from __future__ import annotations

from ctypes import c_int64
from functools import lru_cache
from typing import Any

import numpy as np

from gradtape.compiler.counts import COUNTS
from gradtape.compiler.cpython.objects import add_functions
from gradtape.compiler.emit.plans.instructions import Instruction
from gradtape.compiler.emit.plans.python_calls import NAME, python_calls_ir
from gradtape.compiler.lower.native_stretches import PreparedInstruction
from gradtape.compiler.lower.plan import CallMemory, SlotPlace
from gradtape.compiler.objects.llvm import compile_ir
from gradtape.config import PYTHON_CALL_WORK
from gradtape.ir import Node, Spec
from gradtape.ir.origin import mark


@lru_cache(maxsize=1)
def _function() -> int:
    text = python_calls_ir()
    add_functions(text)
    return compile_ir(text, level=0).address(NAME)


def python_call(node: Node, recorded: Node, memory: CallMemory) -> PreparedInstruction:
    """An op that Python computes, as one instruction of a plan; errors name `recorded`."""
    call = _PythonCall(node, recorded, memory)
    made = Instruction(_function(), [id(call)], 1, code=call)
    return PreparedInstruction(
        made, False, PYTHON_CALL_WORK, False, call, frozenset((node.op.name,))
    )


class _Memory:
    """A value in the memory of a run, as NumPy's array interface describes it."""

    __slots__ = ("__array_interface__",)

    def __init__(self, address: int, of: Spec, readonly: bool) -> None:
        self.__array_interface__ = {
            "data": (address, readonly),
            "shape": of.shape,
            "typestr": of.dtype.str,
            "version": 3,
        }


def _array(slots: int, place: SlotPlace, of: Spec, readonly: bool) -> np.ndarray:
    slot, offset = place
    if not of.size:
        return np.empty(of.shape, of.dtype)
    address = c_int64.from_address(slots + 8 * slot).value + offset
    return np.asarray(_Memory(address, of, readonly))


class _PythonCall:
    """The function of the slots that computes a node."""

    def __init__(self, node: Node, recorded: Node, memory: CallMemory) -> None:
        self._node = node
        self._recorded = recorded
        specs: Any = node.spec if type(node.spec) is tuple else (node.spec,)
        self._operands = [
            (place, parent.spec) for place, parent in zip(memory.operands, node.inputs, strict=True)
        ]
        self._results = [(number, place, specs[number]) for number, place in memory.results.items()]

    def __call__(self, slots: int) -> None:
        node = self._node
        COUNTS.python_calls += 1
        arrays = [_array(slots, place, of, True) for place, of in self._operands]
        try:
            with np.errstate(all="ignore"):
                result = node.op.numpy(*arrays, **node.keywords)
        except Exception as error:
            mark(error, self._recorded)
            raise
        results = result if type(node.spec) is tuple else (result,)
        for number, place, of in self._results:
            _array(slots, place, of, False)[...] = results[number]
