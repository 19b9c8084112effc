"""Sparse Jacobians and Hessians: pattern, colours and program are kept, later calls only evaluate.

What is kept is found by the structure of the graph and by the contents of the integer leaves that
feed index operands: the same program on another mesh has another pattern.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradtape.derive.gradient import hold_result
from gradtape.derive.index_contents import follows, position_leaves, values_of
from gradtape.derive.jacobians import View, derive_slope
from gradtape.derive.pending_matrix import pending_matrix
from gradtape.derive.python_rules import PythonRules
from gradtape.errors import NoValueError, SparsityError
from gradtape.evaluate.bound_plans import BoundPlan, bind
from gradtape.graph.node import Node, apart_from_recorded, apply, placeholder
from gradtape.graph.spec import spec
from gradtape.graph.walk import substitute
from gradtape.ops.arrays.gathering import GATHER
from gradtape.ops.arrays.joining import CONCAT
from gradtape.ops.arrays.movement import reshape_node
from gradtape.ops.elementwise.arithmetic import equal
from gradtape.ops.families.casting import cast
from gradtape.recording.recording import Recording
from gradtape.recording.value import Value, host_value
from gradtape.sparsity.choose_colouring import Coloured, colour, colour_symmetric
from gradtape.sparsity.detect import detect, detect_hessian
from gradtape.sparsity.pattern import Pattern, listed_pattern, pattern_of
from gradtape.transforms.forward import forward
from gradtape.transforms.jacobian import either_way, jacobian_dtype, products
from gradtape.transforms.seeded import Seeded, numbered

# Up to how many entries the independence of examples is looked for one by one.
LISTED = 1 << 20
# How a Jacobian is coloured, by the mode that is asked for or by its own name.
METHODS = {
    "auto": "auto",
    "forward": "column",
    "reverse": "row",
    **{method: method for method in ("column", "row", "bidirectional")},
}


@dataclass(frozen=True)
class Prepared:
    """Everything about a sparse derivative but the values of now."""

    coloured: Coloured
    bound: BoundPlan
    # Values for the placeholders of the program: the colour of each seed.
    seeds: dict[Node, Value]
    dtype: Any
    # Whether any path leads from the source to the target.
    connected: bool = True
    # The derivative in a random direction, until a pattern given by the user was tried against it.
    trials: list[Trial] = field(default_factory=list)
    # Whether the pattern follows from the program alone, not from integers that it is given.
    of_structure: bool = False

    @property
    def pattern(self) -> Pattern:
        return self.coloured.pattern

    @property
    def may_wait(self) -> bool:
        """Whether the entries can be nodes of the program, the same for whatever it is given."""
        return (
            self.of_structure
            and not self.trials
            and self.coloured.substitution is None
            and bool(self.bound.outputs)
        )

    def _listed(self, recording: Recording) -> Node:
        """The entries of the matrix as a node."""
        given = {node: recording.enter_value(value) for node, value in self.seeds.items()}
        positions = np.ascontiguousarray(self.coloured.positions, np.int64)
        entered = recording.enter_value(host_value(positions))
        with apart_from_recorded():
            found = substitute(self.bound.outputs, given)
            parts = tuple(reshape_node(node, (node.size,)) for node in found)
            flat = parts[0] if len(parts) == 1 else apply(CONCAT, parts, (0,))
            return apply(GATHER, (flat, entered), (0,))

    def entries(self, recording: Recording) -> Any:
        """The entries of the matrix, in the order of the pattern."""
        found = [part.reshape(-1) for part in self.bound.arrays(recording, self.seeds)]
        if not found:
            return np.zeros(self.pattern.nnz, self.dtype)
        if self.coloured.substitution is not None:
            return self.coloured.decompress(found[0].reshape(self.coloured.forward_count, -1))
        flat = found[0] if len(found) == 1 else np.concatenate(found)
        return flat.take(self.coloured.positions)

    def matrix(self, recording: Recording) -> Any:
        """The derivative of now, as a scipy.sparse array in CSR form."""
        if recording.capturing and self.may_wait:
            return pending_matrix(self.pattern, hold_result(recording, self._listed(recording)))
        try:
            found = self.pattern.with_data(self.entries(recording))
        except NoValueError as error:
            raise NoValueError(
                "a sparse derivative is made of numbers, and here there are none: "
                f"{str(error).split('. ')[0]}. Use sparse=False, or a Python loop."
            ) from None
        for trial in self.trials:
            trial.check(found, recording)
        # Only a pattern that stood the test is trusted: a wrong one fails at every call.
        self.trials.clear()
        return found


@dataclass(frozen=True)
class Trial:
    """One product with a random direction: what a pattern leaves out shows up in it."""

    bound: BoundPlan
    given: dict[Node, Value]
    direction: Any

    def check(self, matrix: Any, recording: Recording) -> None:
        """Raise SparsityError if the derivative has an entry outside the pattern."""
        (along,) = self.bound.arrays(recording, self.given)
        along = along.reshape(-1)
        rest = np.abs(along - matrix @ self.direction)
        scale = np.abs(along) + abs(matrix) @ np.abs(self.direction)
        tolerance = np.sqrt(np.finfo(along.dtype).eps)
        # NaN and infinities say nothing about the pattern.
        wrong = np.flatnonzero((rest > tolerance * (scale + scale.mean())) & np.isfinite(scale))
        if wrong.size:
            raise SparsityError(
                f"sparse: the given pattern has too few entries: {wrong.size} rows, the first of "
                f"them row {wrong[0]}, depend on columns that it leaves out. Add them, or pass "
                "sparse=True to have the pattern detected."
            )


def sparse_jacobian(
    view: View, target: Node, source: Node, mode: str, wanted: Any, dense: Callable[[], Any]
) -> Any:
    """A CSR array of shape (target.size, source.size), or what `dense` gives if `auto` prefers it.

    None where nothing connects the two.
    """
    if not (target.spec.inexact and source.spec.inexact and view.connected(source, (target,))):
        return None
    given = given_pattern(wanted)
    if is_auto(wanted) and not _is_smaller(
        jacobian_pattern(view, target, source, given), jacobian_dtype(target, source)
    ):
        return dense()
    prepared = prepare_sparse_jacobian(view, target, source, mode, given)
    if not prepared.connected:
        return None
    return _matrix(prepared, view, dense if is_auto(wanted) else None)


def sparse_hessian(
    view: View, target: Node, first: Node, second: Node, wanted: Any, dense: Callable[[], Any]
) -> Any:
    """A CSR array of second derivatives, or what `dense` gives if `auto` prefers it."""
    slope = derive_slope(view, target, first, second)
    if slope is None or derive_slope(view, target, second, second) is None:
        return None
    if first is not second:
        alone = View(view.recording, frozenset(), None)
        found = sparse_jacobian(alone, slope.node, slope.by, "auto", wanted, dense)
        return no_entries(first, second) if found is None else found
    given = given_pattern(wanted)
    if is_auto(wanted) and not _is_smaller(
        hessian_pattern(view, target, first, given), first.dtype
    ):
        return dense()
    prepared = prepare_sparse_hessian(view, target, first, "star", given)
    return _matrix(prepared, view, dense if is_auto(wanted) else None)


def _matrix(prepared: Prepared, view: View, otherwise: Callable[[], Any] | None) -> Any:
    """The numbers of now; where there are none, as inside vmap, the dense form if it may be."""
    try:
        return prepared.matrix(view.recording)
    except NoValueError:
        if otherwise is None:
            raise
        return otherwise()


def no_entries(target: Node, source: Node) -> Any:
    """The matrix of a derivative that is zero everywhere."""
    from scipy.sparse import csr_array

    return csr_array((target.size, source.size), dtype=jacobian_dtype(target, source))


def is_block_diagonal(view: View, target: Node, source: Node) -> bool:
    """Whether the pattern shows that row b of the target reads row b of the source alone."""
    pattern = jacobian_pattern(view, target, source, None, LISTED)
    if pattern.rows is None:
        return False
    count = source.shape[0]
    rows = pattern.row_numbers // (target.size // count)
    return bool(np.all(rows == pattern.indices // (source.size // count)))


def given_pattern(wanted: Any) -> Pattern | None:
    """The pattern that the user gave in place of True or `auto`."""
    if wanted is True or wanted is False or isinstance(wanted, str):
        return None
    return wanted if isinstance(wanted, Pattern) else pattern_of(wanted)


def is_auto(wanted: Any) -> bool:
    return isinstance(wanted, str)


def _is_smaller(pattern: Pattern, dtype: Any) -> bool:
    """Whether the sparse form of a matrix takes less memory than the dense one."""
    itemsize = np.dtype(dtype).itemsize
    rows, columns = pattern.shape
    listed = pattern.nnz * (itemsize + 4) + 4 * rows
    return not pattern.dense and listed < rows * columns * itemsize


def jacobian_pattern(
    view: View, target: Node, source: Node, given: Pattern | None, budget: int | None = None
) -> Pattern:
    """The pattern given, if it fits, or the one that the graph has; kept by structure."""
    if given is not None:
        return _fitting(given, (target.size, source.size))

    def derive(_: PythonRules) -> Pattern:
        known = values_of(view.recording, leaves)
        (found,) = detect(
            [target],
            source,
            known,
            blocked=view.outside,
            follows=follows(view.recording),
            budget=budget,
        )
        return found

    leaves = _leaves(view, target, source)
    return view.remembered(("pattern", target, source, _contents(view, leaves), budget), derive)


def hessian_pattern(view: View, target: Node, source: Node, given: Pattern | None) -> Pattern:
    """The same for second derivatives of the sum of a target."""
    if given is not None:
        return _fitting(given, (source.size, source.size))

    def derive(rules: PythonRules) -> Pattern:
        def known(nodes: Sequence[Node]) -> dict[Node, Any]:
            return values_of(view.recording, position_leaves(nodes, source, ()))

        return detect_hessian(
            view.alone(target, (source,)).target,
            source,
            known,
            follows=follows(view.recording),
            python_rule=rules.pull,
        )

    leaves = _leaves(view, target, source)
    return view.remembered(("hessian_pattern", target, source, _contents(view, leaves)), derive)


def _fitting(given: Pattern, shape: tuple[int, int]) -> Pattern:
    if given.shape != shape:
        raise SparsityError(
            f"sparse: the given pattern has shape {given.shape} and the matrix {shape}. "
            "A pattern has a row for each element of the target and a column for each of the "
            "source."
        )
    return given


def prepare_sparse_jacobian(
    view: View,
    target: Node,
    source: Node,
    mode: str,
    given: Pattern | None,
    order: str | None = None,
) -> Prepared:
    """Pattern, colours and program of a Jacobian, kept by structure."""

    def coloured(method: str) -> Coloured:
        def derive(_: PythonRules) -> Coloured:
            pattern = jacobian_pattern(view, target, source, given)
            return colour(_listed(pattern), method, order=order)

        return view.remembered(("coloured", method, *key), derive)

    def derive(rules: PythonRules) -> Prepared:
        def of(found: Coloured) -> Prepared:
            outputs = _Products(view, rules, target, source, found)
            outputs.add_jacobian()
            return outputs.prepared(given)

        found = coloured(METHODS[_possible_mode(target, source, mode)])
        if mode != "auto":
            return of(found)
        # If some op cannot be passed one way, all goes the other.
        way = "reverse" if found.reverse_count else "forward"
        return either_way(
            way, mode, lambda tried: of(found if tried == way else coloured(METHODS[tried]))
        )

    key = _key(view, target, source, (mode, order), given)
    return view.remembered(("sparse", *key, view.recording.available), derive)


def prepare_sparse_hessian(
    view: View,
    target: Node,
    source: Node,
    method: str,
    given: Pattern | None,
    order: str | None = None,
) -> Prepared:
    """Pattern, colours and program of a Hessian, kept by structure."""

    def coloured(_: PythonRules) -> Coloured:
        pattern = hessian_pattern(view, target, source, given)
        if given is not None:
            # Colours rely on symmetry; a user may well give one half.
            both = pattern.matrix + pattern.transposed.matrix
            pattern = listed_pattern(pattern.shape, both.indptr, both.indices)
        return colour_symmetric(_listed(pattern), method, order=order)

    def derive(rules: PythonRules) -> Prepared:
        found = view.remembered(("coloured_hessian", *key), coloured)
        slope = derive_slope(view, target, source, source)
        like = source if slope is None else slope.node
        outputs = _Products(view.beyond(), rules, like, source, found)
        if slope is not None:
            outputs.add_forward()
        return outputs.prepared(given)

    key = _key(view, target, source, (method, order), given)
    return view.remembered(("sparse_hessian", *key, view.recording.available), derive)


def _listed(pattern: Pattern) -> Pattern:
    """A pattern to colour. One too large to be listed has a column of entries for each seed."""
    if pattern.rows is None:
        notes = f" ({'; '.join(pattern.notes)})" if pattern.notes else ""
        raise SparsityError(
            f"jacobian: a matrix of shape {pattern.shape} has too many entries that can be "
            f"nonzero{notes}. Use sparse=False, or sparse='auto', or give a pattern."
        )
    return pattern


def _possible_mode(target: Node, source: Node, mode: str) -> str:
    """Between real and complex values one way has one seed per element, the other two."""
    if mode != "auto" or source.dtype.kind == target.dtype.kind:
        return mode
    return "reverse" if source.dtype.kind == "c" else "forward"


class _Products:
    """The products of a derivative with the seeds of all colours, as outputs of one program."""

    def __init__(
        self, view: View, rules: PythonRules, target: Node, source: Node, coloured: Coloured
    ) -> None:
        self.view = view
        self.recording = view.recording
        self.question = view.question(source, "auto", rules)
        self.target = target
        self.source = source
        self.coloured = coloured
        self.dtype = jacobian_dtype(target, source)
        self.outputs: list[Node] = []
        self.seeds: dict[Node, Value] = {}
        self.connected = True

    def add_jacobian(self) -> None:
        if self.coloured.forward_count:
            self.add_forward()
        if self.coloured.reverse_count:
            self._add(self._coloured("reverse", self.target, self.coloured.rows))
        if not self.coloured.pattern.nnz:
            self.connected = self._pushed(placeholder(self.source.spec)) is not None

    def add_forward(self) -> None:
        if self.coloured.forward_count:
            self._add(self._coloured("forward", self.source, self.coloured.columns))

    def _coloured(self, way: str, like: Node, colours: Any) -> Node | None:
        """The products with the seeds of each colour, along a new axis 0."""
        # A seed is 1 where the colour is its number: a comparison costs less than reading seeds.
        numbers = numbered(0, colours.count)
        of = spec(like.shape, numbers.dtype)
        given = placeholder(of)
        self.seeds[given] = Value(np.ascontiguousarray(colours.of, of.dtype).reshape(of.shape), of)
        column = reshape_node(numbers, (colours.count, *(1,) * like.ndim))
        start = Seeded(cast(equal(given, column), like.dtype), (0,), ())
        return products(self.target, self.question, way, start, (colours.count,))

    def _pushed(self, seed: Node) -> Node | None:
        question = self.question
        return forward([self.target], [self.source], [seed], question.blocked, question.push)[0]

    def _add(self, found: Node | None) -> None:
        if found is None:
            self.connected = False
        else:
            self.outputs.append(found)

    def prepared(self, given: Pattern | None) -> Prepared:
        outputs = self.outputs if self.connected else []
        bound = bind(self.recording, outputs)
        trials = [] if given is None or not self.connected else self._trials()
        of_structure = not _leaves(self.view, self.target, self.source)
        return Prepared(
            self.coloured, bound, self.seeds, self.dtype, self.connected, trials, of_structure
        )

    def _trials(self) -> list[Trial]:
        # Between real and complex values a product is not the derivative in one direction.
        if self.source.dtype.kind != self.target.dtype.kind:
            return []
        seed = placeholder(self.source.spec)
        pushed = self._pushed(seed)
        if pushed is None:
            return []
        direction = np.random.default_rng(0).uniform(0.5, 1.5, self.source.shape)
        direction = direction.astype(self.source.dtype)
        bound = bind(self.recording, [cast(pushed, self.dtype)])
        return [Trial(bound, {seed: Value(direction, seed.spec)}, direction.reshape(-1))]


def _key(view: View, target: Node, source: Node, how: Any, given: Pattern | None) -> Any:
    content = None if given is None else given.digest
    return target, source, how, content, _contents(view, _leaves(view, target, source))


def _leaves(view: View, target: Node, source: Node) -> list[Node]:
    """The leaves that say where indexing between source and target reads and writes."""
    return view.remembered(
        ("positions", target, source),
        lambda _: position_leaves([target], source, view.outside),
    )


def _contents(view: View, leaves: list[Node]) -> tuple[Any, ...]:
    """What tells two meshes apart: the bytes of the integers that index."""
    if not leaves:
        return ()
    found = values_of(view.recording, leaves)
    return tuple(hashlib.blake2b(array.tobytes()).digest() for array in found.values())
