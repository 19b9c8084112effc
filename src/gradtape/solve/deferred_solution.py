"""A solution inside vmap or the body of a loop, where numbers are known only when the program runs.

The equation becomes a program, and the search a param of one op that calls it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradtape.control.traced_bodies import BodyTrace, Returned, trace
from gradtape.errors import ConvergenceError
from gradtape.graph import Program, spec
from gradtape.ops.control.bodies import inlined
from gradtape.ops.custom.callback import isolated
from gradtape.ops.custom.solutions import SOLVE_EQUATION
from gradtape.ops.families.casting import cast
from gradtape.recording import host_value, state
from gradtape.solve.searches import Function, Search
from gradtape.tape.flat_vector import Layout, join, vector_layout
from gradtape.tape.point import as_scalar
from gradtape.tensor.tensor import Tensor, from_value


@dataclass(frozen=True)
class Later:
    """An equation as a program of the unknowns and of the values that it reads.

    It is a param of the op SOLVE_EQUATION, which calls `solve` when it runs.
    """

    search: Search
    program: Program
    bounded: bool

    def solve(
        self, start: np.ndarray, others: Sequence[np.ndarray], example: int | None
    ) -> np.ndarray:
        """The solution for these numbers, in a recording of its own."""
        bounds = (others[0], others[1]) if self.bounded else None
        read = others[2:] if self.bounded else others
        return isolated(lambda: self._solved(np.array(start), read, bounds, example))

    def _solved(
        self,
        start: np.ndarray,
        read: Sequence[np.ndarray],
        bounds: tuple[np.ndarray, np.ndarray] | None,
        example: int | None,
    ) -> np.ndarray:
        unknown, *given = self.program.inputs
        operands = [
            from_value(host_value(array, node.dtype))
            for array, node in zip(read, given, strict=True)
        ]

        def function(x: Tensor) -> Tensor:
            recording = state.recording
            nodes = [operand.enter(recording) for operand in (x, *operands)]
            return recording.hold(inlined(self.program, nodes)[0], Tensor)

        layout = vector_layout(start.size, unknown.dtype)
        try:
            return self.search.find(function, layout, start.astype(np.float64), bounds)
        except ConvergenceError as error:
            if example is not None:
                error.args = (f"example {example}: {error.args[0]}", *error.args[1:])
            raise


def found_later(
    search: Search,
    function: Function,
    layout: Layout,
    x0: object,
    limits: tuple[Tensor, Tensor] | None,
) -> Tensor:
    """The solution as a node that is computed with the program around it."""

    def flat(made: BodyTrace, arguments: Sequence[Tensor]) -> Returned[None]:
        value = function(layout.unravel(arguments[0]))
        return [as_scalar(search.name, value) if search.scalar else join(value)], None

    body, _ = trace(search.name, flat, [spec((layout.size,), layout.dtype)])
    try:
        recording = state.recording
        program = body.program((*body.arguments, *body.leaves))
        read = [body.bind(recording, leaf) for leaf in body.leaves]
    finally:
        body.end()
    given = [cast(join(x0), layout.dtype), *(limits or ())]
    inputs = (*[part.enter(recording) for part in given], *read)
    later = Later(search, program, limits is not None)
    node = recording.application(SOLVE_EQUATION, inputs, (later, None))
    return recording.hold(node, Tensor)
