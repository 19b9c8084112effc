"""Bodies of loops and branches: functions traced once, on arguments without values.

What a body reads from outside, tensors and variables, becomes an operand of the op that holds it;
so do Python numbers, so that a body with another number in it is the same program.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from gradtape.derive import body_transforms  # noqa: F401 - rules of control ops call them
from gradtape.derive.python_rules import Checkpointed
from gradtape.errors import NoValueError
from gradtape.evaluate.flush import compute_handle, flush
from gradtape.graph.node import LEAF, Node, apply, outputs
from gradtape.graph.op import Op
from gradtape.graph.program import Program, closed
from gradtape.graph.rows import Rows
from gradtape.graph.spec import Spec, spec
from gradtape.graph.walk import dependents, substitute, topological
from gradtape.ops.control import bodies
from gradtape.ops.custom.custom import BARRIER, CUSTOM
from gradtape.ops.custom.custom_body import CUSTOM_BATCH_BODY, CUSTOM_BODY
from gradtape.ops.families.batching import spread
from gradtape.recording.handle import Handle
from gradtape.recording.operands import enter
from gradtape.recording.record import record
from gradtape.recording.recording import Recording
from gradtape.recording.thread_state import state
from gradtape.recording.trace import Trace, about_indices
from gradtape.recording.value import host_value
from gradtape.tensor.tensor import Tensor

# Derivatives by hand that are written into a body, each with those of itself.
HIGHEST_ORDER = 4


class BodyTrace(Trace):
    """The recording of a body."""

    is_batched = False

    __slots__ = ("_made", "_variables", "carries")

    def __init__(self, outer: Recording, name: str, carries: bool) -> None:
        super().__init__(outer, name)
        # Whether variables may be assigned: they are carried from step to step, then.
        self.carries = carries
        # Variables assigned, by id, and what they are now; those made inside.
        self._variables: dict[int, tuple[Any, Handle]] = {}
        self._made: dict[int, Any] = {}

    def bound(self, variable: Any) -> Handle | None:
        """What a variable is inside, if it was assigned there or is carried."""
        reference, handle = self._variables.get(id(variable), (None, None))
        return handle if reference is not None and reference() is variable else None

    def bind(self, variable: Any, new: Any) -> bool:
        """Assign a variable inside."""
        if not self.carries:
            self._refuse_assignment(variable.name)
        handle = self.hold(new.enter(self), variable.value_class)
        self._variables[id(variable)] = (weakref.ref(variable), handle)
        return True

    def make(self, variable: Any) -> None:
        """A variable was made inside: if it does not outlive the body it is nobody's state."""
        self._made[id(variable)] = weakref.ref(variable)

    def assigned(self) -> list[Any]:
        """The variables assigned that are still there."""
        found = [reference() for reference, _ in self._variables.values()]
        return [variable for variable in found if variable is not None]

    def made(self) -> list[Any]:
        """The variables made inside that are still there."""
        return [found for reference in self._made.values() if (found := reference()) is not None]

    def refusal(self, node: Node) -> NoValueError:
        """The error for a look at what has no value."""
        if self.ended:
            return super().refusal(node)
        return NoValueError(
            f"a tensor inside {self.name} has no value: it stands for that of any step, here as "
            f"{node.spec}. if, while, float(), .numpy() and print need a value. Choose with "
            "gt.where or gt.cond instead, or write the loop in Python." + about_indices(node)
        )

    def _refuse_assignment(self, name: str) -> NoReturn:
        raise NoValueError(
            f"assign: {name} would be assigned inside the condition of {self.name}, which is only "
            "looked at. Assign it in the body."
        )


class Body:
    """A function that was traced: the graph of its results over leaves of the trace."""

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
        derived = self.trace.table.derived
        key = ("body", tuple(inputs), roots)
        found = derived.get(key)
        if found is None:
            found = derived[key] = closed(inputs, roots)
        return found

    def bind(self, outer: Recording, leaf: Node) -> Node:
        """The node outside that a leaf stands for."""
        ordinal = leaf.params[0]
        source = self.trace.sources.get(ordinal)
        if source is not None:
            return source
        if leaf in self.trace.draws:
            return self.bind_draw(outer, leaf, self.trace.leaves[ordinal].array)
        return outer.add_leaf(self.trace.leaves[ordinal], leaf.spec)

    def bind_draw(self, outer: Recording, leaf: Node, positions: Any) -> Node:
        """Positions of random numbers, which are unknown again where a function is traced."""
        generator = self.trace.draws[leaf]
        if isinstance(outer, Trace) and generator.number < outer.number:
            return outer.draw(generator, self.trace.starts[generator], positions).node
        if outer.capturing:
            return outer.enter_positions(generator, positions)  # type: ignore[attr-defined]
        return outer.enter_value(host_value(positions))

    def end(self) -> None:
        """Nothing more is asked of the trace."""
        self.trace.end()

    def give_up(self) -> None:
        """The function will be traced once more."""
        self.trace.rewind()
        self.trace.end()


def settled() -> Recording:
    """The recording of now, after what should run before a function is traced has run."""
    outer = state.recording
    if outer.outer is None and not outer.active and (outer.updates or outer.is_full()):
        flush(outer)
    return state.recording


def trace(
    name: str, function: Callable[..., Any], specs: Sequence[Spec], carries: bool = False
) -> tuple[Body, Any]:
    """Call `function` on tensors without values; it gives (results, anything).

    Results may be nodes of tensors, variables, arrays and numbers. If it `carries` variables, they
    may be assigned, which the caller sees to.
    """
    made = BodyTrace(state.recording, name, carries)
    try:
        with made.entered():
            arguments = [made.add_unknown(of) for of in specs]
            results, more = function(made, [made.hold(n, Tensor) for n in arguments])
            roots = [_node(made, result) for result in results]
            roots = _Programs(made).of(roots)
            return Body(made, arguments, roots), more
    except BaseException:
        made.end()
        raise


def _node(made: BodyTrace, result: Any) -> Node:
    if type(result) is Node:
        return result
    return enter(made, result)


class _Programs:
    """Derivatives in Python become programs: their closures do not outlive the trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.new: dict[Node, Node] = {}
        # Derivatives may call functions with derivatives that call the first again, for ever.
        self.order = 0

    def of(self, roots: Sequence[Node]) -> list[Node]:
        if not self.trace.rules:
            return list(roots)
        for node in topological(roots, stop=self.new.keys()):
            if node not in self.new:
                self.new[node] = self._written(node)
        return [self.new[root] for root in roots]

    def _written(self, node: Node) -> Node:
        inputs = tuple(self.new[parent] for parent in node.inputs)
        known = node.op is CUSTOM and self.order < HIGHEST_ORDER
        rule = self.trace.rules.get(node) if known else None
        if rule is None:
            same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
            return node if same else apply(node.op, inputs, node.params)
        count = node.params[0]
        seeds = [self.trace.add_unknown(of) for of in node.spec]
        pulled = rule.pull(self.trace, node, tuple(seeds))[count:]
        dense = [slope.dense() if isinstance(slope, Rows) else slope for slope in pulled]
        self.new.update((seed, seed) for seed in seeds)
        self.order += 1
        slopes = self.of([slope for slope in dense if slope is not None])
        self.order -= 1
        if isinstance(rule, Checkpointed):
            slopes, read = self._computed_again(node, slopes)
        else:
            read = self._read(slopes, seeds)
        having = tuple(slope is not None for slope in dense)
        body = closed((*read, *seeds), slopes)
        return apply(CUSTOM_BODY, (*inputs, *read), (count, having, body))

    def _read(self, slopes: Sequence[Node], seeds: Sequence[Node]) -> list[Node]:
        """What a derivative reads of the values: all that does not depend on cotangents."""
        order = topological(slopes)
        moving = dependents(order, set(seeds))
        needed = {parent for one in moving for parent in one.inputs} | set(slopes)
        return _without_constants([one for one in order if one in needed and one not in moving])

    def _computed_again(self, node: Node, slopes: Sequence[Node]) -> tuple[list[Node], list[Node]]:
        """The derivative of a checkpoint, from what it was given and what it saves.

        Nothing keeps a program of its own from computing again, so the barriers can go.
        """
        count = node.params[0]
        ends = {self.new[parent] for parent in node.inputs[count:]} | set(node.inputs[count:])
        ends |= {self.new.get(one, one) for one in self.trace.saved}
        barriers = [one for one in topological(slopes, stop=ends) if one.op is BARRIER]
        slopes = substitute(slopes, {one: one.inputs[0] for one in barriers})
        return slopes, [one for one in topological(slopes, stop=ends) if one in ends]


def _without_constants(nodes: Sequence[Node]) -> list[Node]:
    """Constants need not be given; and of a node with several outputs these are what is read."""
    return [one for one in nodes if not one.op.constant and type(one.spec) is not tuple]


def batch_programs(
    trace: Trace, call: Any, outputs: Sequence[Any], operands: Sequence[Any], sizes: Sequence[int]
) -> Any:
    """The results of a function with a batch rule, with what the rule gives for so many examples.

    The rule is called here and now, on arguments that are all batched.
    """
    arguments = [operand.enter(trace) for operand in operands]
    roots = [output.enter(trace) for output in outputs]
    inside = topological(roots, stop=set(arguments))
    if any(n.op is LEAF and n not in arguments and trace.lacks_value(n) for n in inside):
        raise NoValueError(
            f"custom_vmap: {call.name}: it reads a tensor that may differ from example to example "
            "and is not among the arguments. Pass it as an argument."
        )
    made = []
    for size in sizes:
        many = [trace.add_unknown(spec((size, *n.shape), n.dtype)) for n in arguments]
        handles = [trace.hold(node, Tensor) for node in many]
        given = call.run(size, [True] * len(many), handles, [root.spec for root in roots])
        results = [
            found.enter(trace) if flag else spread(found.enter(trace), size)
            for found, flag in given
        ]
        made.append((size, many, _Programs(trace).of(results)))
    order = topological([root for _, _, results in made for root in results])
    moving = dependents(order, {node for _, many, _ in made for node in many})
    needed = {parent for one in moving for parent in one.inputs}
    needed |= {root for _, _, results in made for root in results}
    read = _without_constants([one for one in order if one in needed and one not in moving])
    rules = tuple((size, closed((*read, *many), results)) for size, many, results in made)
    held = trace.hold_all(read, Tensor)
    params = (len(roots), len(arguments), call.name, rules)
    return record(CUSTOM_BATCH_BODY, (*outputs, *operands, *held), params)


def apply_outside(
    op: Op, inputs: Sequence[Node], params: tuple[Any, ...], traced: Sequence[Body] = ()
) -> list[Any]:
    """One more application where functions were called; gives handles on its outputs."""
    outer = state.recording
    for body in traced:
        outer.lines.update(body.trace.lines)
    node = outer.application(op, tuple(inputs), params)
    handles = outer.hold_all(outputs(node), Tensor)
    if any(bodies.may_fail(body) for body in bodies.held(node)) and not outer.lacks_value(node):
        try:
            # Each of them: what fails may be on the way to one result only.
            for handle in handles:
                outer.compute_at_once(handle)
        except BaseException:
            outer.forget(tuple(handles))
            raise
    return handles


def is_tracked(recording: Recording, nodes: Sequence[Node]) -> bool:
    """Whether any node depends on what a live tape watches."""
    if not recording.watched:
        return False
    return not dependents(topological(nodes), recording.watched).isdisjoint(nodes)


def count_of(recording: Recording, node: Node) -> int:
    """The value of a node that counts something, computed now."""
    handle = recording.hold(node, Handle)
    if recording.capturing:
        # Another call may count something else.
        return recording.decide(handle, int, "count")  # type: ignore[attr-defined]
    compute_handle(handle)
    assert handle.computed is not None
    return int(handle.computed.array)
