"""Detection: the pattern of a Jacobian, from the structure of the program alone.

Dependence goes forward through the graph, through each op by its `sparsity` rule. No floating-point
value is read, and nothing is probed: the pattern holds at every point. It is exact for movement,
element-wise ops and indexing by known integers, and a superset elsewhere.

Patterns of the Jacobians and Hessians of a recording, detected or given by the user.

A detected pattern is kept under the structure of the graph and the contents of the integer leaves
that index: the same program on another mesh has another pattern.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from gradtape.autodiff.modes import dense_vjp
from gradtape.autodiff.python_rules import Checkpointed, PythonRules
from gradtape.autodiff.sparse import dependence
from gradtape.autodiff.sparse.dependence import Dependence
from gradtape.autodiff.sparse.pattern import Pattern, SparseMatrix, listed_pattern, pattern_of
from gradtape.autodiff.window import Window
from gradtape.config import LARGEST_BLOCK_PATTERN, LARGEST_PATTERN, LISTED_FRACTION, SMALL_PATTERN
from gradtape.dtypes import Array, DType
from gradtape.errors import SparsityError
from gradtape.ir import LEAF, PICK, Fact, Node, constant, dependents, of_structure, topological
from gradtape.ir.derived import Digests, digest_of
from gradtape.ir.logs import Log
from gradtape.ops.control.bodies import held
from gradtape.ops.control.composed_reads import indexes
from gradtape.ops.custom.custom import CUSTOM
from gradtape.ops.families.sparsity import Joined, Listed, RuleInput, Running, dense
from gradtape.progress import Progress
from gradtape.trace import Recording

_log = Log("autodiff")


Known = Mapping[Node, Array | None]
# The dependence of a node, or of each output of a node with several; None: on nothing.
Found = Dependence | list[Dependence | None] | None
Follows = Callable[[Node], bool]


def default_limit(rows: int, columns: int) -> int:
    """The number of entries past which a pattern is treated as dense."""
    return max(SMALL_PATTERN, min(int(LISTED_FRACTION * rows * columns), LARGEST_PATTERN))


def detect(
    outputs: Sequence[Node],
    source: Node,
    known: Known | None = None,
    *,
    blocked: Collection[Node] = (),
    follows: Follows | None = None,
    budget: int | None = None,
) -> list[Pattern]:
    """The pattern of d output / d source for each output, of shape (output.size, source.size).

    `known` has the values of leaves (see `index_leaves`), and perhaps of other nodes, that index
    operands are computed from. `blocked` nodes are constants. `follows` says whether a derivative
    written in Python belongs to the computation itself; any other may depend on everything. A value
    with more than `budget` entries is treated as dense.
    """
    walk = Walk(outputs, source, known or {}, blocked, follows, budget)
    found = [walk.pattern(output) for output in outputs]
    for note in dict.fromkeys(note for pattern in found for note in pattern.notes):
        _log.info("detection gave up at %s", note)
    return found


def detect_hessian(
    target: Node,
    source: Node,
    known: Known | None = None,
    *,
    blocked: Collection[Node] = (),
    follows: Follows | None = None,
    rules: PythonRules | None = None,
    budget: int | None = None,
) -> Pattern:
    """The pattern of the Hessian of the sum of `target`: of the Jacobian of its gradient.

    Reverse mode finds more zeros than a table of linear ops would: the derivative of a maximum is a
    mask, that of a product the other factor. The pattern is made symmetric.
    """
    slope = dense_vjp(target, constant(1, target.spec), source, blocked, rules)
    shape = (source.size, source.size)
    if slope is None:
        return listed_pattern(shape, np.zeros(source.size + 1, np.int32), np.zeros(0, np.int32))
    (found,) = detect([slope], source, known, blocked=blocked, follows=follows, budget=budget)
    return found if found.dense else found.with_transpose()


def index_leaves(
    outputs: Sequence[Node], source: Node, blocked: Collection[Node] = ()
) -> list[Node]:
    """The leaves that index operands between source and outputs are computed from.

    A pattern depends on their values and on the program. The source does not count: indices that
    are computed from it are not known.
    """
    order = topological(outputs)
    active = _active(order, source, blocked)
    roots = [
        parent
        for node in order
        if node in active and _is_indexing(node)
        for parent in node.inputs
        if parent not in active and not _carries(parent)
    ]
    order = topological(dict.fromkeys(roots))
    return [node for node in order if node.op is LEAF and node is not source]


def _active(order: list[Node], source: Node, blocked: Collection[Node]) -> set[Node]:
    kept = (node for node in order if node not in blocked or node is source)
    return dependents(kept, {source})


def _is_indexing(node: Node) -> bool:
    return node.op.moves or any(indexes(body) for body in held(node))


def _carries(node: Node) -> bool:
    return type(node.spec) is tuple or node.spec.inexact


class Values:
    """Values of index operands, computed on demand from known values."""

    def __init__(self, known: Known, active: set[Node]) -> None:
        self.known = known
        self.active = active
        self.found: dict[Node, Array | None] = {}

    def of(self, root: Node) -> Array | None:
        """The value, or None if it depends on the source or on an unknown value."""
        for node in topological([root], stop=self.found.keys()):
            if node not in self.found:
                self.found[node] = self._value(node)
        return self.found[root]

    def _value(self, node: Node) -> Array | None:
        if node in self.active:
            return None
        if node in self.known:
            value = self.known[node]
            return None if value is None else np.asarray(value)
        operands = [self.found[parent] for parent in node.inputs]
        if node.op.opaque or any(operand is None for operand in operands):
            return None
        with np.errstate(all="ignore"):
            found: Array = node.op.numpy(*operands, **node.keywords)
            return found


class Walk:
    """One pass over a graph."""

    def __init__(
        self,
        outputs: Sequence[Node],
        source: Node,
        known: Known,
        blocked: Collection[Node],
        follows: Follows | None,
        budget: int | None,
    ) -> None:
        self.source = source
        self.follows = follows
        self.budget = budget
        self.notes: dict[str, None] = {}
        # The first node with more entries than can be listed.
        self.culprit: Node | None = None
        self.found: dict[Node, Found] = {source: dependence.itself(source.size)}
        order = topological(outputs)
        active = _active(order, source, blocked)
        self.values = Values(known, active)
        uses = Counter(parent for node in order if node in active for parent in node.inputs)
        uses.update(outputs)
        passed = [node for node in order if node in active and node is not source]
        with Progress("sparsity pattern", len(passed)) as progress:
            for node in passed:
                result = self._through(node)
                if result is not None:
                    self.found[node] = result
                if self.culprit is None and self._is_too_large(result):
                    self.culprit = node
                for parent in node.inputs:
                    uses[parent] -= 1
                    if not uses[parent]:
                        self.found.pop(parent, None)
                progress.advance()

    def _is_too_large(self, found: Found) -> bool:
        """Whether the entries of a value are too many to be listed."""
        if not isinstance(found, Dependence):
            return False
        return found.total() > max(self.limit(found.size), SMALL_PATTERN)

    def limit(self, size: int) -> int:
        return default_limit(size, self.source.size) if self.budget is None else self.budget

    def pattern(self, output: Node) -> Pattern:
        shape = (output.size, self.source.size)
        found = self._dependence(output)
        notes = tuple(self.notes)
        if found is None:
            return listed_pattern(
                shape, np.zeros(output.size + 1, np.int32), np.zeros(0, np.int32), notes
            )
        # Small patterns are listed even if the budget made them dense on the way.
        if self._is_too_large(found):
            why = () if notes else (self._note(self.culprit or output, output.size),)
            return Pattern(shape, None, True, (*notes, *why))
        listed = found.listed()
        return listed_pattern(shape, listed.indptr, listed.indices, notes)

    def _note(self, node: Node, size: int | None = None) -> str:
        limit = self.limit(node.size if size is None else size)
        op = (node.inputs[0] if node.op is PICK else node).op
        return f"{op.name}: more than {limit} entries, treated as dense"

    def _through(self, node: Node) -> Found:
        if node.op is PICK:
            parts = self.found.get(node.inputs[0])
            return parts[node.params[0]] if isinstance(parts, list) else None
        if not _carries(node):
            return None
        parents = [self._dependence(parent) for parent in node.inputs]
        if all(parent is None for parent in parents):
            return None
        if node.op is CUSTOM and self.follows is not None and self.follows(node):
            return parents[: node.params[0]]
        operands = tuple(
            RuleInput(parent.spec, found is not None, self._look_up(node, parent))
            for parent, found in zip(node.inputs, parents, strict=True)
        )
        rule: Any = node.op.sparsity
        if not callable(rule):
            self.notes[f"{node.op.name}: it has no sparsity rule, treated as dense"] = None
            rule = dense
        reads = rule(node, operands, **node.keywords)
        if type(node.spec) is tuple:
            return [
                self._combined(node, parents, one, of.size)
                for one, of in zip(reads, node.spec, strict=True)
            ]
        return self._combined(node, parents, reads, node.size)

    def _dependence(self, node: Node) -> Dependence | None:
        """The dependence of an operand, which is one output of a node."""
        found = self.found.get(node)
        assert not isinstance(found, list)
        return found

    def _look_up(self, node: Node, parent: Node) -> Callable[[], Array | None]:
        def value() -> Array | None:
            found = self.values.of(parent)
            if found is None:
                self.notes[
                    f"{node.op.name}: its positions are computed from the source or not known, "
                    "any may be read"
                ] = None
            return found

        return value

    def _combined(
        self, node: Node, parents: list[Dependence | None], reads: Any, size: int
    ) -> Dependence | None:
        """The union of the dependences through all operands."""
        limit = self.limit(size)
        if isinstance(reads, Joined):
            sizes = [parent.size for parent in node.inputs]
            return dependence.picked(dependence.joined(parents, sizes), reads.positions)
        parts: list[Dependence] = []
        part: Dependence | None
        for parent, one, operand in zip(parents, reads, node.inputs, strict=True):
            if parent is None or one is None:
                continue
            if isinstance(one, Running):
                shape = operand.shape
                part, kept = dependence.running(parent, shape, one.axis, one.reverse, limit)
                if not kept:
                    self.notes[self._note(node, size)] = None
            else:
                if isinstance(one, Listed):
                    part = dependence.listed(parent, one.matrix, limit)
                else:
                    if one.note:
                        self.notes[f"{node.op.name}: {one.note}, treated as dense"] = None
                    part = dependence.reading(parent, one, limit)
                if part is None:
                    self.notes[self._note(node, size)] = None
                    part = dependence.one_set(parent, size)
            parts.append(part)
        if len(parts) <= 1:
            return parts[0] if parts else None
        total = dependence.union(parts, limit)
        if total is None:
            self.notes[self._note(node, size)] = None
            sizes = [part.size for part in parts]
            total = dependence.one_set(dependence.joined(parts, sizes), size)
        return total


# The recorded contents of the leaves that index operands are computed from; None where a trace has
# no value.
Contents = Mapping[Node, Array | None]


def digests(contents: Contents) -> Digests:
    """The part of the key of a fact that distinguishes two meshes."""
    arrays = contents.values()
    return tuple(None if array is None else digest_of(array) for array in arrays)


def index_contents(window: Window, target: Node, source: Node) -> Contents:
    """The contents that a pattern of the target by the source depends on, beside the graph."""

    def derive(_: PythonRules) -> list[Node]:
        return index_leaves([target], source, window.outside)

    leaves = window.remembered(of_structure("index leaves", target, source), derive)
    return contents_of(window.recording, leaves)


def contents_of(recording: Recording, leaves: Sequence[Node]) -> Contents:
    """The contents of some leaves of a recording."""
    return {leaf: recording.contents(leaf) for leaf in leaves}


def follows(node: Node) -> bool:
    """Whether a node's Python rule is the derivative of its computation: a checkpoint's."""
    return isinstance(node.params[1], Checkpointed)


# Values of the argument `sparse`: True, "auto", or a pattern.
Wanted = bool | str | Pattern | SparseMatrix


def given_pattern(wanted: Wanted) -> Pattern | None:
    """The pattern that the user gave in place of True or `auto`, or None."""
    if wanted is True or wanted is False or isinstance(wanted, str):
        return None
    return wanted if isinstance(wanted, Pattern) else pattern_of(wanted)


def jacobian_pattern(window: Window, target: Node, source: Node, given: Pattern | None) -> Pattern:
    """The given pattern, checked, or the one detected in the graph."""
    if given is not None:
        return _fitting(given, (target.size, source.size))

    contents = index_contents(window, target, source)
    return window.remembered(
        Fact("pattern", (target, source), digests(contents), ()),
        lambda _: _detected(window, target, source, contents),
    )


def _detected(
    window: Window, target: Node, source: Node, contents: Contents, budget: int | None = None
) -> Pattern:
    (found,) = detect(
        [target], source, contents, blocked=window.outside, follows=follows, budget=budget
    )
    return found


def hessian_pattern(window: Window, target: Node, source: Node, given: Pattern | None) -> Pattern:
    """The pattern of the second derivatives of the sum of a target, given or detected."""
    if given is not None:
        return _fitting(given, (source.size, source.size))

    contents = index_contents(window, target, source)

    def derive(rules: PythonRules) -> Pattern:
        return detect_hessian(
            window.isolated(target, (source,)).target,
            source,
            contents,
            follows=follows,
            rules=rules,
        )

    key = Fact("hessian_pattern", (target, source), digests(contents), ())
    return window.remembered(key, derive)


def _fitting(given: Pattern, shape: tuple[int, int]) -> Pattern:
    if given.shape != shape:
        raise SparsityError(
            f"sparse: the given pattern has shape {given.shape} and the matrix {shape}. "
            "A pattern has a row for each element of the target and a column for each of the "
            "source."
        )
    return given


def is_block_diagonal(window: Window, target: Node, source: Node) -> bool:
    """Whether the pattern proves that row b of the target depends on row b of the source only."""
    contents = index_contents(window, target, source)

    def derive(_: PythonRules) -> bool:
        pattern = _detected(window, target, source, contents, LARGEST_BLOCK_PATTERN)
        if pattern.rows is None:
            return False
        count = source.shape[0]
        rows = pattern.row_numbers // (target.size // count)
        return bool(np.all(rows == pattern.indices // (source.size // count)))

    key = Fact("block diagonal", (target, source), digests(contents), ())
    return window.remembered(key, derive)


def is_smaller(pattern: Pattern, dtype: DType) -> bool:
    """Whether the sparse form of a matrix takes less memory than the dense one."""
    itemsize = np.dtype(dtype).itemsize
    rows, columns = pattern.shape
    listed = pattern.nnz * (itemsize + 4) + 4 * rows
    return not pattern.dense and listed < rows * columns * itemsize
