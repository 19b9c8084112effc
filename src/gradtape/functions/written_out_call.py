"""Straight: a captured function without guards, as one Python function written out by name.

Most captured functions compute everything in one run. Then a call needs no walk over steps: its
inputs are gathered, the plan runs, and its outputs are returned and assigned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradtape.functions.steps import (
    Argument,
    Computed,
    Constant,
    Held,
    Number,
    Outside,
    Position,
    Scalar,
    Step,
)
from gradtape.pytree import unflatten
from gradtape.recording.handle import Handle
from gradtape.recording.value import Value


def straight_call(step: Step) -> Callable[[list[Any], Callable[[], Any]], Any] | None:
    """A function of the inputs of a call, and of what gives them as the caller has them.

    None if there is more to it than one run.
    """
    result = step.result
    if result is None or len(step.runs) != 1 or result.rebound or result.moved:
        return None
    (run,) = step.runs
    if run.lines is not None:  # something may fail, and would have to say where it was recorded
        return None
    names: dict[str, Any] = {
        "Value": Value, "structure": result.structure, "unflatten": unflatten, "Handle": Handle,
    }  # fmt: skip

    def written(source: Any) -> str | None:
        """The source of a value as an expression."""
        if isinstance(source, Argument):
            return f"inputs[{source.position}]"
        if isinstance(source, Computed):
            place = run.outputs.index(source.node)
            names[f"spec{place}"] = source.node.spec
            return f"Value(found[{place}], spec{place})"
        name = f"n{len(names)}"
        if isinstance(source, Outside):
            source = source.settled()
        if isinstance(source, Constant):
            names[name] = source.content
            return name
        if isinstance(source, Held):
            names[name] = source.variable
            return f"{name}.current()"
        if isinstance(source, Outside):
            names[name] = source.current
            return f"{name}()"
        if isinstance(source, Position):
            names[name] = source.after
            return f"{name}(place{source.draw})"
        if isinstance(source, (Number, Scalar)):
            names[name] = source.compute if isinstance(source, Number) else source.of
            return f"{name}(inputs)"
        return None

    inputs = [source.settled() if isinstance(source, Outside) else source for source in run.inputs]
    fixed = {
        position: source.content
        for position, source in enumerate(inputs)
        if isinstance(source, Constant)
    }
    names["run"] = run.plan.bound(fixed, lambda faster: names.update(run=faster))
    given = [written(source) for position, source in enumerate(inputs) if position not in fixed]
    updates = [(variable, written(source)) for variable, source in result.updates]
    expressions: dict[Any, str] = {}
    for leaf in result.leaves:
        fresh = leaf.otherwise if isinstance(leaf, Back) else leaf
        found = written(fresh.source if isinstance(fresh, (Listed, Wrapped)) else fresh)
        if found is None:
            return None
        if isinstance(fresh, Listed):
            name = f"matrix{len(expressions)}"
            names[name] = fresh.made
            found = f"{name}({found}.array)"
        if isinstance(fresh, Wrapped):
            kind = fresh.kind.__name__
            names[kind] = fresh.kind
            if not isinstance(fresh.source, Computed):
                names["apart"] = apart
                found = f"apart({found})"
            found = f"{kind}(None, None, {found})"
        if isinstance(leaf, Back):
            own = f"own[{leaf.position}]"
            found = f"{own} if isinstance({own}, Handle) else {found}"
        expressions[leaf] = found
    # What is returned in several places is made once.
    several = len(expressions) < len(result.leaves)
    made = {leaf: f"leaf{number}" for number, leaf in enumerate(expressions)}
    leaves = [(made if several else expressions)[leaf] for leaf in result.leaves]
    if None in given or any(source is None for _, source in updates):
        return None
    lines = ["def call(inputs, given):"]
    for number, (generator, blocks) in enumerate(step.draws):
        names[f"reserve{number}"] = generator.reserve
        lines.append(f"    place{number} = reserve{number}({blocks})")
    computed = f"found = run({', '.join(map(str, given))})"
    if step.draws:
        back = [
            f"        reserve{n}.__self__.rewind(place{n}[2], place{n}[2] + {blocks})"
            for n, (_, blocks) in enumerate(step.draws)
        ]
        lines += [
            "    try:",
            f"        {computed}",
            "    except BaseException:",
            *back,
            "        raise",
        ]
    else:
        lines.append(f"    {computed}")
    if any(isinstance(leaf, Back) for leaf in result.leaves):
        lines.append("    own = given()")
    if several:
        lines += [f"    {made[leaf]} = {found}" for leaf, found in expressions.items()]
    # What is returned may be what a variable held before.
    single = result.structure.kind is None
    returned = leaves[0] if single else f"unflatten(structure, [{', '.join(map(str, leaves))}])"
    if updates:
        lines.append(f"    returned = {returned}")
        returned = "returned"
    for number, (_, source) in enumerate(updates):
        lines.append(f"    u{number} = {source}")
    for number, (variable, source) in enumerate(updates):
        names[f"v{number}"] = variable
        own = f"u{number}"
        if not str(source).startswith("Value("):
            own = f"Value({own}.content, {own}.spec)"
        lines.append(f"    v{number}.replace({own})")
    lines.append(f"    return {returned}")
    exec("\n".join(lines), names)
    return names["call"]


class Wrapped:
    """A leaf of a result that is a tensor around a value."""

    __slots__ = ("kind", "source")

    def __init__(self, source: Any, kind: Any) -> None:
        self.source = source
        self.kind = kind

    def __call__(self, call: Any) -> Any:
        found = self.source(call)
        return self.kind(None, None, found if type(self.source) is Computed else apart(found))


class Listed:
    """A leaf of a result that is a sparse matrix, made of its entries."""

    __slots__ = ("made", "source")

    def __init__(self, source: Any, made: Callable[[Any], Any]) -> None:
        self.source = source
        self.made = made

    def __call__(self, call: Any) -> Any:
        return self.made(self.source(call).array)


def apart(value: Value) -> Value:
    """The same as a value of its own: a later tape does not take one for the other."""
    return Value(value.content, value.spec)


class Back:
    """A leaf of a result that is a tensor of the caller's, among the inputs."""

    __slots__ = ("otherwise", "position")

    def __init__(self, position: int, otherwise: Wrapped) -> None:
        self.position = position
        # For an input that is no tensor but an array.
        self.otherwise = otherwise

    def __call__(self, call: Any) -> Any:
        own = call.given()[self.position]
        return own if isinstance(own, Handle) else self.otherwise(call)
