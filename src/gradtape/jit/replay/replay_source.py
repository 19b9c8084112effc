"""Replay source: the one writer of replays, as written-out Python functions.

`written_replay` writes a tree of steps as one function `replay(arguments, caller_arguments)`. The
arguments are the inputs of the call, as values and numbers; `caller_arguments()` gives the same as
the caller passed them. The function returns what the captured function would, or an `UnknownPath`
where a guard finds a value that no capture has seen; then it has changed nothing. It raises what
the plans raise.

A tree without guards becomes straight-line code:

    def replay(arguments, caller_arguments):
        found0 = plan0(arguments[0], variable0.current())
        returned = Tensor(None, None, Value(found0[0], spec0))
        new0 = Tensor1(None, None, Value(found0[1], spec1))
        assign1(new0)
        return returned

At a guard, one branch goes on below; the others are written inside `if`. The branch that goes on
is the one with the most results, so the depth of the nest grows with the logarithm of their number
and loops of thousands of guards stay flat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from gradtape.ir.node import Node
from gradtape.jit.arguments.signature import Inputs
from gradtape.jit.capture.stand_ins import change_all
from gradtape.jit.replay.sources import (
    Argument,
    Attribute,
    CallersTensor,
    Computed,
    Constant,
    Contents,
    Element,
    Generator,
    GuardSource,
    Leaf,
    NewTensor,
    Number,
    NumberAsTensor,
    NumberKey,
    OutsideArray,
    OutsideTensor,
    OutsideTensorItself,
    RandomPosition,
    RowSparseTensor,
    Source,
    SparseMatrix,
    VariableValue,
    branch_key,
    settled,
)
from gradtape.jit.replay.steps import Result, Run, Step
from gradtape.ops.custom.callback import Outcome
from gradtape.pytree import unflatten
from gradtape.runtime.source_text import SourceText
from gradtape.tensor.tensor import Tensor
from gradtape.trace.followed_number import Compute
from gradtape.trace.handle import Handle
from gradtape.trace.value import Value

CallerArguments = Callable[[], Sequence[object]]
Replay = Callable[[Inputs, CallerArguments], Any]


class UnknownPath:
    """The answer of a replay that met a value no capture has seen, with what it had computed."""

    __slots__ = ("outcomes", "values")

    def __init__(self, values: dict[Node, Value]) -> None:
        self.values = values
        # What callbacks returned on the way, in order.
        self.outcomes: list[Outcome] = []


def written_replay(root: Step, note_path: Callable[[Result], None] | None = None) -> Replay:
    """The replay of a tree of steps; `note_path` is told which result each call takes."""
    return _Writer(root, note_path).replay()


class _Known(NamedTuple):
    """A computed value: the expression of its content, the name of its spec, and of its Value."""

    content: str
    spec: str
    value: str | None


class _Writer:
    """Writes one function; expressions may use names of the text and locals of the function."""

    def __init__(self, root: Step, note_path: Callable[[Result], None] | None) -> None:
        self._root = root
        self._note_path = note_path
        self._text = SourceText(
            Handle=Handle,
            Tensor=Tensor,
            Value=Value,
            branch_key=branch_key,
            give_back=_give_back,
            own_value=_own_value,
            change_all=change_all,
            unflatten=unflatten,
            unknown=self._unknown,
        )
        self._count = 0
        steps = list(_steps(root))
        self._draws = any(step.draws for step in steps)
        # Nodes whose values later plans and guards read: these are made once, as locals.
        self._read = {
            source.node
            for step in steps
            for source in (
                *[each for run in step.runs for each in run.inputs],
                *([step.guard.source] if isinstance(step.guard, Element) else []),
            )
            if isinstance(source, Computed)
        }
        # The local that holds the outputs of each run.
        self._outputs: dict[str, tuple[Node, ...]] = {}
        self._specs: dict[int, str] = {}

    def replay(self) -> Replay:
        text = self._text
        text.line("def replay(arguments, caller_arguments):")
        with text.block():
            if self._draws:
                # A call that fails has drawn nothing.
                text.line("drawn = []")
                text.line("try:")
                with text.block():
                    self._step(self._root, {}, 0)
                text.line("except BaseException:")
                with text.block():
                    text.line("give_back(drawn)")
                    text.line("raise")
            else:
                self._step(self._root, {}, 0)
        return text.compiled("replay")

    def _unknown(self, found: dict[str, Any]) -> UnknownPath:
        """Called by the function with its locals where it meets an unknown value."""
        if not _give_back(found.get("drawn", [])):
            # Others have drawn meanwhile: the values are of random numbers that were lost.
            return UnknownPath({})
        return UnknownPath(
            {
                node: Value(content, node.spec)
                for name, nodes in self._outputs.items()
                if name in found
                for node, content in zip(nodes, found[name], strict=True)
            }
        )

    def _name(self, thing: object, hint: str) -> str:
        # Numbered here: a text of thousands of names is not searched for the next free one.
        self._count += 1
        return self._text.name(thing, f"{hint}{self._count}")

    # Steps.

    def _step(self, step: Step, known: dict[Node, _Known], draws: int) -> None:
        """Write a step and all that may follow it."""
        text = self._text
        while step.complete:
            for number, (generator, blocks) in enumerate(step.draws, start=draws):
                name = self._name(generator, "generator")
                text.line(f"place{number} = {name}.reserve({blocks})")
                text.line(f"drawn.append(({name}, place{number}[2], place{number}[2] + {blocks}))")
            draws += len(step.draws)
            for run in step.runs:
                self._run(run, known)
            if step.result is not None:
                if not step.is_replayed:
                    break
                self._result(step.result, known)
                return
            if step.guard is None or not step.branches:
                break
            text.line(f"seen = {self._guard(step.guard, known)}")
            step = self._branches(step, known, draws)
        text.line("return unknown(locals())")

    def _branches(self, step: Step, known: dict[Node, _Known], draws: int) -> Step:
        """Write all branches of a step but one, the next step, which goes on below."""
        text, branches = self._text, list(step.branches.items())
        if len(branches) > 1:
            branches.sort(key=lambda each: sum(step.result is not None for step in _steps(each[1])))
        *others, (key, following) = branches
        for other, branch in others:
            text.line(f"if seen == {self._key(other)}:")
            with text.block():
                self._step(branch, dict(known), draws)
        text.line(f"if seen != {self._key(key)}:")
        with text.block():
            text.line("return unknown(locals())")
        return following

    def _key(self, key: object) -> str:
        return repr(key) if type(key) in (bool, int, str) else self._name(key, "key")

    def _guard(self, guard: GuardSource, known: dict[Node, _Known]) -> str:
        if isinstance(guard, Element):
            return f"{self._name(guard.reader(), 'read')}({self._value(guard.source, known)})"
        if isinstance(guard, Contents):
            return f"{self._name(guard.read, 'digest')}({self._value(guard.source, known)})"
        if isinstance(guard, NumberKey):
            number = self._number(guard.formula.compute)
            return f"branch_key({number})" if guard.is_inexact else number
        if isinstance(guard, Attribute):
            return f"getattr({self._name(guard.thing, 'thing')}, {guard.name!r})"
        return self._value(guard, known)

    def _run(self, run: Run, known: dict[Node, _Known]) -> None:
        text = self._text
        plan = run.written_in(text, f"plan{len(self._outputs)}")
        found = f"found{len(self._outputs)}"
        self._outputs[found] = run.outputs
        inputs = [self._value(source, known) for source in run.inputs]
        varying = [
            expression
            for expression, source in zip(inputs, run.inputs, strict=True)
            if not isinstance(source, Constant)
        ]
        call = f"{found} = {plan}({', '.join(varying)})"
        if run.lines is None:
            text.line(call)
        else:
            text.line("try:")
            with text.block():
                text.line(call)
            text.line("except Exception as error:")
            with text.block():
                explain = self._name(run.lines.explain, "explain")
                text.line(f"{explain}(error, [{', '.join(inputs)}])")
                text.line("raise")
        for number, node in enumerate(run.outputs):
            content, spec, value = f"{found}[{number}]", self._spec(node), None
            if node in self._read:
                value = f"{found}_{number}"
                text.line(f"{value} = Value({content}, {spec})")
            known[node] = _Known(content, spec, value)

    def _spec(self, node: Node) -> str:
        name = self._specs.get(id(node.spec))
        if name is None:
            name = self._specs[id(node.spec)] = self._name(node.spec, "spec")
        return name

    # Expressions.

    def _value(self, source: Source, known: dict[Node, _Known]) -> str:
        """The value of a source; it may be held by others, too."""
        source = settled(source)
        if isinstance(source, Argument):
            return f"arguments[{source.position}]"
        if isinstance(source, Computed):
            content, spec, value = known[source.node]
            return value or f"Value({content}, {spec})"
        if isinstance(source, Number):
            return self._number(source.formula.compute)
        if isinstance(source, NumberAsTensor):
            return f"{self._name(source.of, 'as_tensor')}(arguments)"
        if isinstance(source, VariableValue):
            return f"{self._name(source.variable, 'variable')}.current()"
        if isinstance(source, OutsideTensor):
            return f"{self._name(source.current, 'outside')}()"
        if isinstance(source, OutsideArray):
            return f"{self._name(source.value, 'array')}()"
        if isinstance(source, RandomPosition):
            return f"{self._name(source.after, 'after')}(place{source.draw})"
        return self._name(source.content, "constant")

    def _number(self, compute: Compute) -> str:
        if type(compute) is itemgetter:
            position = compute.__reduce__()[1][0]
            return f"arguments[{position}]"
        return f"{self._name(compute, 'number')}(arguments)"

    def _own(self, source: Source, known: dict[Node, _Known]) -> str:
        """The value of a source as a Value of its own: later tapes tell its holders apart."""
        if isinstance(source, Computed):
            content, spec, _ = known[source.node]
            return f"Value({content}, {spec})"
        if isinstance(source, OutsideArray):
            return f"{self._name(source.copy, 'copy')}()"
        return f"own_value({self._value(source, known)})"

    def _leaf(self, leaf: Leaf, known: dict[Node, _Known]) -> str:
        if isinstance(leaf, NewTensor):
            kind = self._name(leaf.kind, "Tensor")
            return f"{kind}(None, None, {self._own(leaf.source, known)})"
        if isinstance(leaf, SparseMatrix):
            make = self._name(leaf.from_entries, "matrix")
            return f"{make}({self._value(leaf.source, known)}.array)"
        if isinstance(leaf, RowSparseTensor):
            parts = [self._leaf(part, known) for part in leaf.parts]
            kind, spec = self._name(leaf.kind, "RowSparse"), self._name(leaf.spec, "spec")
            return f"{kind}({', '.join(parts)}, {spec})"
        if isinstance(leaf, CallersTensor):
            own, fresh = f"own[{leaf.position}]", self._leaf(leaf.otherwise, known)
            return f"{own} if isinstance({own}, Handle) else {fresh}"
        if isinstance(leaf, OutsideTensorItself):
            handle, fresh = self._name(leaf.handle, "tensor"), self._leaf(leaf.otherwise, known)
            return f"{fresh} if (itself := {handle}()) is None else itself"
        return self._value(leaf, known)

    # Results.

    def _result(self, result: Result, known: dict[Node, _Known]) -> None:
        """Write the end of a path: everything is made first, then changes follow one another."""
        text = self._text
        if self._note_path is not None and self._root.guard is not None:
            text.line(f"{self._name(self._note_path, 'note')}({self._name(result, 'path')})")
        if result.moved or any(isinstance(leaf, CallersTensor) for leaf in result.leaves):
            text.line("own = caller_arguments()")
        returned = self._returned(result, known)
        targets = [(f"{self._name(ref, 'tensor')}()", source) for ref, source in result.rebound]
        targets += [(f"own[{position}]", source) for position, source in result.moved]
        if result.updates or targets:
            # A variable may be returned as it was before: that is made first.
            text.line(f"returned = {returned}")
            returned = "returned"
            news = [f"new{number}" for number in range(len(result.updates))]
            for new, (_, source) in zip(news, result.updates, strict=True):
                text.line(f"{new} = Tensor(None, None, {self._own(source, known)})")
            assign = self._name(result.assignment, "assign")
            if targets:
                changes = [
                    f"({target}, {self._own(source, known)}), " for target, source in targets
                ]
                text.line(f"changes = ({''.join(changes)})")
                variables = self._name([variable for variable, _ in result.updates], "variables")
                text.line(f"change_all(changes, {variables}, {', '.join([assign, *news])})")
            else:
                text.line(f"{assign}({', '.join(news)})")
        text.line(f"return {returned}")

    def _returned(self, result: Result, known: dict[Node, _Known]) -> str:
        """The expression of all that is returned; a leaf in several places is made once."""
        expressions = {leaf: self._leaf(leaf, known) for leaf in dict.fromkeys(result.leaves)}
        if len(expressions) < len(result.leaves):
            for number, (leaf, expression) in enumerate(expressions.items()):
                self._text.line(f"leaf{number} = {expression}")
                expressions[leaf] = f"leaf{number}"
        leaves = [expressions[leaf] for leaf in result.leaves]
        if result.structure.kind is None:
            return leaves[0]
        structure = self._name(result.structure, "structure")
        return f"unflatten({structure}, [{', '.join(leaves)}])"


def _steps(root: Step) -> Iterator[Step]:
    """All steps of a tree."""
    stack = [root]
    while stack:
        step = stack.pop()
        yield step
        stack += step.branches.values()


def _own_value(value: Value) -> Value:
    return Value(value.content, value.spec)


def _give_back(drawn: list[tuple[Generator, int, int]]) -> bool:
    """Move generators back to where they were; False if others have drawn meanwhile."""
    gone = [not generator.rewind(start, stop) for generator, start, stop in reversed(drawn)]
    return not any(gone)
