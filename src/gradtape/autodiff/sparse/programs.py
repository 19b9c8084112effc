"""Programs of sparse Jacobians and Hessians: the products with the seeds of all colours.

Pattern, colours and plan are kept by structure; later calls only run the plan.

Colour chunks: the products of a sparse derivative with the seeds of some colours at a time.

The products with all colours take (colours x size) numbers, of which the matrix needs its entries
only. Past a memory budget one plan computes the products with `count` colours, from number `offset`
on, and the entries are picked from each chunk before the next one runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any

import numpy as np

from gradtape.autodiff.chunks import (
    UNLIMITED,
    Limits,
    ProductWith,
    SeedChunks,
    Seeds,
    needs_graph,
    seed_chunks,
)
from gradtape.autodiff.jacobian import (
    derive_slope,
    either_way,
    jacobian_dtype,
    products,
    way_by_dtype,
)
from gradtape.autodiff.modes import forward
from gradtape.autodiff.python_rules import PythonRules
from gradtape.autodiff.seeded import Seeded, numbered
from gradtape.autodiff.sparse.choose_colouring import Coloured, colour, colour_symmetric
from gradtape.autodiff.sparse.colouring import Colours
from gradtape.autodiff.sparse.detect import (
    digests,
    hessian_pattern,
    index_contents,
    jacobian_pattern,
)
from gradtape.autodiff.sparse.pattern import Pattern, SparseMatrix
from gradtape.autodiff.window import Window, hold_results
from gradtape.dtypes import Array, DType
from gradtape.errors import NoValueError, SparsityError
from gradtape.ir import Fact, Node, apart_from_recorded, apply, placeholder, spec, substitute
from gradtape.ir.program import program
from gradtape.ops.arrays.gathering import GATHER
from gradtape.ops.arrays.joining import CONCAT
from gradtape.ops.arrays.movement import reshape_node
from gradtape.ops.families.casting import cast
from gradtape.records import dataclass
from gradtape.runtime.bound_plans import BoundPlan, bind, plan_settings
from gradtape.runtime.profiler_sink import PROBE
from gradtape.runtime.program_memory import intermediate_bytes, total_bytes
from gradtape.trace import Recording, Value, host_value

# Pending matrices: sparse derivatives inside a captured function, with a tensor for the entries.
# Reading the entries reads values out of the function, as with any tensor. A matrix that is only
# returned is made from the computed entries in every replay.
# The class, once it was made: it derives from SciPy's, which is slow to import.
_made: list[type] = []


@lru_cache(maxsize=1)
def _kind() -> type:
    from scipy.sparse import csr_array  # slow to import

    class PendingMatrix(csr_array):
        """A CSR array whose entries are a tensor until they are read."""

        pattern: Pattern
        entries: Any

        @property
        def data(self) -> Any:
            found = self.__dict__.get("data")
            if found is None:
                found = self.__dict__["data"] = self.entries.numpy().copy()
            return found

        @data.setter
        def data(self, new: Any) -> None:
            self.__dict__["data"] = new

        @property
        def dtype(self) -> Any:
            return self.entries.dtype if self.__dict__.get("data") is None else self.data.dtype

        @dtype.setter
        def dtype(self, new: Any) -> None:
            self.data = self.data.astype(new)

    _made.append(PendingMatrix)
    return PendingMatrix


def pending_matrix(pattern: Pattern, entries: Any) -> SparseMatrix:
    """The matrix with a tensor for the entries of a pattern."""
    found = pattern.with_data(None, _kind())
    found.pattern, found.entries = pattern, entries
    return found


def is_pending(thing: object) -> bool:
    """Whether an object is a pending matrix whose entries were not read yet."""
    return type(thing) in _made and thing.__dict__.get("data") is None


# The colouring of a Jacobian, by the requested mode or by its own name.
METHODS = {
    "auto": "auto",
    "forward": "column",
    "reverse": "row",
    **{method: method for method in ("column", "row", "bidirectional")},
}


@dataclass(frozen=True)
class SparseProgram:
    """A sparse derivative at any point: colours, and a plan for the products with all seeds."""

    coloured: Coloured
    bound: BoundPlan
    # Values for the placeholders of the plan: the colour of each element.
    seeds: dict[Node, Value]
    dtype: DType
    # Whether a path leads from the source to the target.
    connected: bool = True
    # Tests of a pattern that the user gave, until it has passed them.
    trials: list[PatternTrial] = field(default_factory=list)
    # Whether the pattern depends on the program alone, not on integers that index.
    of_structure: bool = False
    # If the products with all colours are too large: the plans for some colours at a time.
    chunks: tuple[SeedChunks, ...] = ()

    @property
    def pattern(self) -> Pattern:
        return self.coloured.pattern

    @property
    def may_be_pending(self) -> bool:
        """Whether the entries can be a pending tensor: their number and places never change."""
        return (
            self.of_structure
            and not self.trials
            and self.coloured.substitution is None
            and bool(self.bound.outputs)
        )

    def _pending_entries(self, recording: Recording) -> Node:
        """The entries of the matrix as a node."""
        replacement = {node: recording.enter_value(value) for node, value in self.seeds.items()}
        positions = np.ascontiguousarray(self.coloured.positions, np.int64)
        entered = recording.enter_value(host_value(positions))
        with apart_from_recorded():
            found = substitute(self.bound.outputs, replacement)
            parts = tuple(reshape_node(node, (node.size,)) for node in found)
            flat = parts[0] if len(parts) == 1 else apply(CONCAT, parts, (0,))
            return apply(GATHER, (flat, entered), (0,))

    def entries(self, recording: Recording) -> Array:
        """The entries of the matrix, in the order of the pattern."""
        if self.chunks:
            assert self.coloured.positions is not None
            places = np.asarray(self.coloured.positions)
            title = "hessian" if self.coloured.symmetric else "jacobian"
            return entries_by_chunks(self.chunks, recording, places, self.dtype, title)
        found = self.bound.arrays(recording, self.seeds)
        return self.coloured.decompress(*found) if found else np.zeros(self.pattern.nnz, self.dtype)

    def matrix(self, recording: Recording) -> SparseMatrix:
        """The derivative at the recorded values, as a scipy.sparse array in CSR form."""
        if PROBE.sink is not None:
            PROBE.sink.coloured(self.coloured)
        if recording.capturing and self.may_be_pending:
            (entries,) = hold_results(recording, [self._pending_entries(recording)])
            return pending_matrix(self.pattern, entries)
        try:
            found = self.pattern.with_data(self.entries(recording))
        except NoValueError as error:
            raise NoValueError(
                "a sparse derivative is made of numbers, and here there are none: "
                f"{str(error).split('. ')[0]}. Use sparse=False, or a Python loop."
            ) from None
        for trial in self.trials:
            trial.check(found, recording)
        # The tests are dropped only after they passed: a wrong pattern fails at every call.
        self.trials.clear()
        return found


@dataclass(frozen=True)
class PatternTrial:
    """A test of a given pattern: the product with a random direction reveals missing entries."""

    bound: BoundPlan
    seeds: dict[Node, Value]
    direction: Array

    def check(self, matrix: SparseMatrix, recording: Recording) -> None:
        """Raise SparsityError if the derivative has an entry outside the pattern."""
        (along,) = self.bound.arrays(recording, self.seeds)
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


def prepare_sparse_jacobian(
    window: Window,
    target: Node,
    source: Node,
    mode: str,
    given: Pattern | None,
    order: str | None = None,
    limits: Limits = UNLIMITED,
) -> SparseProgram:
    """The program of a sparse Jacobian, kept by structure."""

    def coloured(method: str) -> Coloured:
        def derive(_: PythonRules) -> Coloured:
            pattern = jacobian_pattern(window, target, source, given)
            return colour(_listed(pattern), method, order=order)

        coloured_by = key._replace(kind="coloured", structure=(*key.structure, method), settings=())
        return window.remembered(coloured_by, derive)

    def derive(rules: PythonRules) -> SparseProgram:
        def of(found: Coloured) -> SparseProgram:
            return _prepared(window, rules, target, source, found, given, limits)

        # Between real and complex values the other mode needs two seeds per element.
        first = (way_by_dtype(target, source) or mode) if mode == "auto" else mode
        found = coloured(METHODS[first])
        # If an op has no rule for one mode, the other mode computes everything.
        way = "reverse" if found.reverse_count else "forward"
        return either_way(
            way, mode, lambda tried: of(found if tried == way else coloured(METHODS[tried]))
        )

    key = _key("sparse", window, (target, source, mode, order), given, limits)
    return window.remembered(key, derive)


def prepare_sparse_hessian(
    window: Window,
    target: Node,
    source: Node,
    method: str,
    given: Pattern | None,
    order: str | None = None,
    limits: Limits = UNLIMITED,
) -> SparseProgram:
    """The program of a sparse Hessian, kept by structure."""

    def coloured(_: PythonRules) -> Coloured:
        pattern = hessian_pattern(window, target, source, given)
        if given is not None:
            # The colouring relies on symmetry, and users may give one half of the pattern.
            pattern = pattern.with_transpose()
        return colour_symmetric(_listed(pattern), method, order=order)

    def derive(rules: PythonRules) -> SparseProgram:
        by_pattern = key._replace(kind="coloured_hessian", settings=())
        found = window.remembered(by_pattern, coloured)
        slope = derive_slope(window, target, source, source)
        if slope is None:
            empty = bind(window.recording, [])
            return SparseProgram(found, empty, {}, source.dtype)
        inner = window.of_derivative(slope.isolated)
        return _prepared(inner, rules, slope.node, source, found, given, limits)

    key = _key("sparse_hessian", window, (target, source, method, order), given, limits)
    return window.remembered(key, derive)


def _listed(pattern: Pattern) -> Pattern:
    """The pattern; raises if it is too large to be listed, as one that is dense."""
    if pattern.rows is None:
        notes = f" ({'; '.join(pattern.notes)})" if pattern.notes else ""
        raise SparsityError(
            f"jacobian: a matrix of shape {pattern.shape} has too many entries that can be "
            f"nonzero{notes}. Use sparse=False, or sparse='auto', or give a pattern."
        )
    return pattern


def _prepared(
    window: Window,
    rules: PythonRules,
    target: Node,
    source: Node,
    coloured: Coloured,
    given: Pattern | None,
    limits: Limits,
) -> SparseProgram:
    """The products of a derivative with the seeds of all colours, as one program."""
    recording = window.recording
    request = window.request(source, "auto", rules)

    def seeds_of(way: str, like: Node, colours: Colours) -> Seeds:
        def product(start: Seeded, count: int) -> Node | None:
            return products(target, request, way, start, (count,))

        return colour_seeds(like, colours, product)

    seed = placeholder(source.spec)
    seeds = []
    if coloured.columns is not None and coloured.columns.count:
        seeds.append(seeds_of("forward", source, coloured.columns))
    if coloured.rows is not None and coloured.rows.count:
        seeds.append(seeds_of("reverse", target, coloured.rows))
    found = [one.products(one.count) for one in seeds]
    outputs = [node for node in found if node is not None]
    pushed = None
    if not coloured.pattern.nnz or given is not None:
        (pushed,) = forward([target], [source], [seed], request.blocked, rules)
    connected = len(outputs) == len(found) and (coloured.pattern.nnz > 0 or pushed is not None)
    outputs = outputs if connected else []
    chunks: tuple[SeedChunks, ...] = ()
    # A capture or a trace needs the graph, and substitution all products at once.
    if coloured.substitution is None and not needs_graph(recording):
        chunks = colour_chunks(recording, seeds, outputs, limits)
    bound = bind(recording, [] if chunks else window.restored(outputs))
    values = {node: value for one in seeds for node, value in one.given.items()}
    dtype = jacobian_dtype(target, source)
    trials = []
    # Between real and complex values a product is not a directional derivative.
    is_tried = given is not None and connected and source.dtype.kind == target.dtype.kind
    if is_tried and pushed is not None:
        direction = np.random.default_rng(0).uniform(0.5, 1.5, source.shape).astype(source.dtype)
        along = bind(recording, window.restored([cast(pushed, dtype)]))
        value = Value(direction, seed.spec)
        trials.append(PatternTrial(along, {seed: value}, direction.reshape(-1)))
    of_structure = not index_contents(window, target, source)
    return SparseProgram(coloured, bound, values, dtype, connected, trials, of_structure, chunks)


def _key(
    kind: str,
    window: Window,
    request: tuple[Node, Node, str, str | None],
    given: Pattern | None,
    limits: Limits,
) -> Fact:
    recording = window.recording
    contents = index_contents(window, *request[:2])
    return Fact(
        kind,
        (*request, None if given is None else given.digest),
        digests(contents),
        (limits, needs_graph(recording), *plan_settings(recording)),
    )


def colour_seeds(like: Node, colours: Colours, product: ProductWith) -> Seeds:
    """The seeds of all colours. The plan reads the colour of each element from an input."""
    of = spec(like.shape, numbered(0, 1).dtype)
    numbers = placeholder(of)
    value = Value(np.ascontiguousarray(colours.of, of.dtype).reshape(of.shape), of)
    return Seeds(like, colours.count, product, numbers, {numbers: value})


def colour_chunks(
    recording: Recording, seeds: Sequence[Seeds], outputs: Sequence[Node], wanted: Limits
) -> tuple[SeedChunks, ...]:
    """The plans that compute `outputs` in chunks; none if all of it fits the budget at once."""
    most = max((one.count for one in seeds), default=0)
    if most <= (wanted.chunk_size or 1):
        return ()
    if wanted.chunk_size is None:
        steps = program(outputs, recording.values.keys())
        room = wanted.budget - sum(node.spec.nbytes for node in outputs)
        # The first number is quick to find, and larger than the second.
        if total_bytes(steps) <= room or intermediate_bytes(steps) <= room:
            return ()
    chunks = [seed_chunks(recording, one, wanted) for one in seeds]
    # The products with all colours exist, so those with some do.
    return tuple(one for one in chunks if one is not None)


def entries_by_chunks(
    chunks: Sequence[SeedChunks],
    recording: Recording,
    places: Array,
    dtype: DType,
    title: str = "jacobian",
) -> Array:
    """The entries at places in the products of all chunks laid end to end."""
    result = np.empty(len(places), dtype)
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    begin = 0
    for one in chunks:
        width = one.bound.outputs[0].size // one.count
        for first, part in one.run(recording, title):
            low = begin + first * width
            start, stop = np.searchsorted(ordered, [low, low + part.size])
            chosen = order[start:stop]
            result[chosen] = part.reshape(-1).take(places[chosen] - low)
        begin += one.seeds.count * width
    return result
