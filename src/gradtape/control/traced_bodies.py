"""Bodies of loops and branches: functions traced once, on arguments without values.

Tensors and variables that a body reads from outside become operands of the op that holds it. So do
Python numbers: a body with another number in it is the same program.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from gradtape.autodiff import body_transforms  # noqa: F401 - rules of control ops call them
from gradtape.control.rule_programs import RulePrograms
from gradtape.errors import NoValueError
from gradtape.ir import (
    LEAF,
    Node,
    Op,
    Program,
    Spec,
    closed,
    dependents,
    of_structure,
    outputs,
    topological,
)
from gradtape.ops.control import bodies
from gradtape.runtime.flush import compute_handle, flush
from gradtape.tensor import Tensor, TensorLike, Variable
from gradtape.trace import Handle, Recording, enter, host_value, state
from gradtape.trace.trace import Trace, about_indices

More = TypeVar("More")
# The results of a traced function, and what its caller needs besides.
Returned: TypeAlias = tuple[Sequence[Node | Handle | TensorLike], More]


class BodyTrace(Trace):
    """The recording of a body."""

    __slots__ = ("_made", "_variables", "carries")

    def __init__(self, outer: Recording, name: str, carries: bool) -> None:
        super().__init__(outer, name)
        # Whether variables may be assigned, because the op carries them from step to step.
        self.carries = carries
        # Variables assigned, by id, with their current value; and variables made inside.
        self._variables: dict[int, tuple[weakref.ref[Variable], Handle]] = {}
        self._made: dict[int, weakref.ref[Variable]] = {}

    def bound(self, variable: object) -> Handle | None:
        """The value of a variable inside, if it was assigned there or is carried."""
        reference, handle = self._variables.get(id(variable), (None, None))
        return handle if reference is not None and reference() is variable else None

    def bind(self, variable: Any, new: Any) -> bool:
        """Assign a variable inside."""
        if not self.carries:
            raise NoValueError(
                f"assign: {variable.name} would be assigned inside the condition of {self.name}, "
                "which only computes a truth value. Assign it in the body."
            )
        handle = self.hold(new.enter(self), variable.value_class)
        self._variables[id(variable)] = (weakref.ref(variable), handle)
        return True

    def make(self, variable: Any) -> None:
        """Note a variable that was made inside; only one that outlives the body is state."""
        self._made[id(variable)] = weakref.ref(variable)

    def assigned(self) -> list[Variable]:
        """The variables assigned that still exist."""
        found = [reference() for reference, _ in self._variables.values()]
        return [variable for variable in found if variable is not None]

    def made(self) -> list[Variable]:
        """The variables made inside that still exist."""
        return [found for reference in self._made.values() if (found := reference()) is not None]

    def refusal(self, node: Node) -> NoValueError:
        """The error for a read of what has no value."""
        if self.ended:
            return super().refusal(node)
        return NoValueError(
            f"a tensor inside {self.name} has no value: it stands for that of any step, here as "
            f"{node.spec}. if, while, float(), .numpy() and print need a value. Choose with "
            "gt.where or gt.cond instead, or write the loop in Python." + about_indices(node)
        )


class TracedBody:
    """A traced function: the graph of its results over leaves of the trace."""

    def __init__(self, trace: BodyTrace, arguments: list[Node], roots: list[Node]) -> None:
        self.trace = trace
        self.arguments = arguments
        self.roots = roots
        known = set(arguments)
        self.leaves = [node for node in topological(roots) if node.op is LEAF and node not in known]
        self.draws = [node for node in self.leaves if node in trace.draws]

    def program(self, inputs: Sequence[Node], results: Sequence[Node] | None = None) -> Program:
        """The closed program of these inputs, found by the identity of its nodes if seen before."""
        roots = tuple(self.roots if results is None else results)
        key = of_structure("body", tuple(inputs), roots)
        return self.trace.table.derived.once(key, lambda: closed(inputs, roots))

    def bind(self, outer: Recording, leaf: Node) -> Node:
        """The node outside that a leaf stands for."""
        return bind(self.trace, outer, leaf)

    def end(self) -> None:
        """End the trace: nothing more is read from it."""
        self.trace.end()

    def give_up(self) -> None:
        """The function will be traced once more."""
        self.trace.rewind()
        self.trace.end()


def bind(trace: Trace, outer: Recording, leaf: Node, positions: np.ndarray | None = None) -> Node:
    """The node outside that a leaf of a trace stands for; `positions` are those of random draws.

    In a trace outside, positions are unknown again.
    """
    ordinal = leaf.params[0]
    source = trace.sources.get(ordinal)
    if source is not None:
        return source
    generator = trace.draws.get(leaf)
    if generator is None:
        return outer.add_leaf(trace.leaves[ordinal], leaf.spec)
    if positions is None:
        positions = trace.leaves[ordinal].array
    if isinstance(outer, Trace) and generator.number < outer.number:
        return outer.draw(generator, trace.starts[generator], positions).node
    if outer.capturing:
        return outer.enter_positions(generator, positions)  # type: ignore[attr-defined]
    return outer.enter_value(host_value(positions))


def settled() -> Recording:
    """The current recording, after pending updates that should run before a trace have run."""
    outer = state.recording
    if outer.outer is None and not outer.active and (outer.updates or outer.is_full()):
        flush(outer)
    return state.recording


def trace(
    name: str,
    function: Callable[[BodyTrace, list[Tensor]], Returned[More]],
    specs: Sequence[Spec],
    carries: bool = False,
) -> tuple[TracedBody, More]:
    """The body of a function, and the second part of what it returned.

    It is called on tensors without values. With `carries` it may assign variables, and the caller
    makes them inputs and outputs of the body.
    """
    made = BodyTrace(state.recording, name, carries)
    try:
        with made.entered():
            arguments = [made.add_unknown(of) for of in specs]
            results, more = function(made, [made.hold(n, Tensor) for n in arguments])
            roots = [x if type(x) is Node else enter(made, x) for x in results]
            roots = RulePrograms(made).of(roots)
            return TracedBody(made, arguments, roots), more
    except BaseException:
        made.end()
        raise


def apply_outside(
    op: Op, inputs: Sequence[Node], params: tuple[Any, ...], traced: Sequence[TracedBody] = ()
) -> list[Tensor]:
    """Apply an op that holds bodies in the recording outside them; handles on its outputs."""
    outer = state.recording
    for body in traced:
        outer.lines.update(body.trace.lines)
    node = outer.application(op, tuple(inputs), params)
    handles = outer.hold_all(outputs(node), Tensor)
    if any(bodies.may_fail(body) for body in bodies.held(node)) and not outer.lacks_value(node):
        try:
            # All of them, because an op that fails may lead to one result only.
            for handle in handles:
                outer.compute_at_once(handle)
        except BaseException:
            outer.forget(tuple(handles))
            raise
    return handles


def is_tracked(recording: Recording, nodes: Sequence[Node]) -> bool:
    """Whether any node depends on a node that a live tape watches."""
    if not recording.watched:
        return False
    return not dependents(topological(nodes), recording.watched).isdisjoint(nodes)


def count_of(recording: Recording, node: Node) -> int:
    """The value of a node that counts something, computed now."""
    handle = recording.hold(node, Handle)
    if recording.capturing:
        # Another call may count something else.
        return recording.capturing.decide(handle, int, "count")
    compute_handle(handle)
    assert handle.computed is not None
    return int(handle.computed.array)
