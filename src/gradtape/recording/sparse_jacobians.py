"""Sparse Jacobians and Hessians: pattern, colours and program are kept, later calls only evaluate.

What is kept is found by the structure of the graph and by the contents of the integer leaves that
feed index operands: the same program on another mesh has another pattern.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.graph.node import LEAF, Node, placeholder
from gradtape.graph.program import program
from gradtape.graph.recording import Recording, Value
from gradtape.graph.spec import spec
from gradtape.ops.movement import reshape_node
from gradtape.recording.custom import PythonRules
from gradtape.recording.jacobians import View, derive_gradient
from gradtape.recording.structure import follows, known_positions
from gradtape.runtime.cache import plan_for
from gradtape.sparsity.detect import detect, detect_hessian
from gradtape.sparsity.pattern import Pattern, pattern_of
from gradtape.sparsity.prepare import Coloured, colour, colour_symmetric
from gradtape.transforms.cotangent import Rows
from gradtape.transforms.forward import forward
from gradtape.transforms.reverse import reverse
from gradtape.transforms.seeded import Seeded, dense_form, respond

# Up to how many entries the independence of examples is looked for one by one.
LISTED = 1 << 20
METHODS = {"auto": "auto", "forward": "column", "reverse": "row"}


@dataclass(frozen=True)
class Prepared:
    """Everything about a sparse derivative but the values of now."""

    coloured: Coloured
    plan: Any
    bindings: tuple[int | Node, ...]
    # Values for the placeholders of the program: directions of the products.
    seeds: dict[Node, Value]
    dtype: Any

    @property
    def pattern(self) -> Pattern:
        return self.coloured.pattern

    def entries(self, recording: Recording) -> Any:
        """The entries of the matrix, in the order of the pattern."""
        recording.observed = True
        inputs = [self._input(recording, binding) for binding in self.bindings]
        products = [np.reshape(_array(found), -1) for found in self.plan(inputs)]
        if self.coloured.substitution is not None:
            return self.coloured.decompress(products[0].reshape(self.coloured.forward_count, -1))
        if not products:  # nothing depends on anything
            return np.zeros(len(self.coloured.positions), self.dtype)
        flat = products[0] if len(products) == 1 else np.concatenate(products)
        return flat.take(self.coloured.positions)

    def _input(self, recording: Recording, binding: int | Node) -> Any:
        if isinstance(binding, int):
            return recording.leaves[binding]
        if binding in self.seeds:
            return self.seeds[binding]
        return recording.values[binding]

    def matrix(self, recording: Recording) -> Any:
        """The derivative of now, as a scipy.sparse array in CSR form."""
        return self.pattern.with_data(self.entries(recording))


def _array(found: Any) -> Any:
    return found if isinstance(found, np.ndarray) else found.array


def sparse_jacobian(view: View, target: Node, source: Node, mode: str, wanted: Any) -> Any:
    """A CSR array of shape (target.size, source.size), or None if `auto` finds dense smaller."""
    if not (target.spec.inexact and source.spec.inexact and view.connected(source, (target,))):
        return None if wanted == "auto" else _nothing(target.size, source.size, target.dtype)
    prepared = prepare_sparse_jacobian(view, target, source, mode, given_pattern(wanted))
    return _smaller(prepared, wanted, view.recording)


def sparse_hessian(view: View, target: Node, first: Node, second: Node, wanted: Any) -> Any:
    """A CSR array of second derivatives, or None if `auto` finds dense smaller."""
    slope = derive_gradient(view, target, first)
    if slope is None or not view.connected(second, (target,)):
        return None if wanted == "auto" else _nothing(first.size, second.size, target.dtype)
    if first is not second:
        alone = View(view.recording, frozenset(), view.watched)
        return sparse_jacobian(alone, slope, second, "auto", wanted)
    prepared = prepare_sparse_hessian(view, target, first, "star", given_pattern(wanted))
    return _smaller(prepared, wanted, view.recording)


def is_block_diagonal(view: View, target: Node, source: Node) -> bool:
    """Whether the pattern shows that row b of the target reads row b of the source alone."""
    known = _known(view, [target], source)
    (pattern,) = detect(
        [target],
        source,
        known,
        blocked=view.outside,
        follows=follows(view.recording),
        budget=LISTED,
    )
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


def _nothing(rows: int, columns: int, dtype: Any) -> Any:
    from scipy.sparse import csr_array

    return csr_array((rows, columns), dtype=dtype)


def _smaller(prepared: Prepared, wanted: Any, recording: Recording) -> Any:
    """The matrix, unless either form will do and the dense one takes less memory."""
    pattern = prepared.pattern
    if wanted == "auto":
        itemsize = np.dtype(prepared.dtype).itemsize
        rows, columns = pattern.shape
        listed = pattern.nnz * (itemsize + 4) + 4 * rows
        if pattern.dense or listed >= rows * columns * itemsize:
            return None
    return prepared.matrix(recording)


def prepare_sparse_jacobian(
    view: View, target: Node, source: Node, mode: str, given: Pattern | None
) -> Prepared:
    """Pattern, colours and program of a Jacobian, kept by structure."""

    def derive(rules: PythonRules) -> Prepared:
        pattern = given
        if pattern is None:
            known = _known(view, [target], source)
            (pattern,) = detect(
                [target], source, known, blocked=view.outside, follows=follows(view.recording)
            )
        coloured = colour(pattern, METHODS[mode])
        outputs, seeds = _products(view, rules, target, source, coloured)
        return _prepared(view, coloured, outputs, seeds, target.dtype)

    key = ("sparse", target, source, mode, given, _contents(view, [target], source))
    return view.remembered(key, derive)


def prepare_sparse_hessian(
    view: View, target: Node, source: Node, method: str, given: Pattern | None
) -> Prepared:
    """Pattern, colours and program of a Hessian, kept by structure."""

    def derive(rules: PythonRules) -> Prepared:
        inner = view.alone(target, (source,))
        pattern = given
        if pattern is None:
            pattern = detect_hessian(
                inner,
                source,
                lambda outputs: _known(view, list(outputs), source),
                follows=follows(view.recording),
                python_rule=rules.pull,
            )
        coloured = colour_symmetric(pattern, method)
        slope = derive_gradient(view, target, source)
        outputs: list[Node] = []
        seeds: dict[Node, Value] = {}
        if slope is not None:
            _add_forward(view, rules, slope, source, coloured, outputs, seeds, ())
        return _prepared(view, coloured, outputs, seeds, source.dtype)

    key = ("sparse_hessian", target, source, method, given, _contents(view, [target], source))
    return view.remembered(key, derive)


def _products(
    view: View, rules: PythonRules, target: Node, source: Node, coloured: Coloured
) -> tuple[list[Node], dict[Node, Value]]:
    outputs: list[Node] = []
    seeds: dict[Node, Value] = {}
    if coloured.forward_count:
        _add_forward(view, rules, target, source, coloured, outputs, seeds, view.outside)
    if coloured.reverse_count:
        weights = coloured.reverse_seeds(target.dtype).reshape(-1, *target.shape)
        seed = placeholder(target.spec)
        (pulled,) = reverse([target], [seed], [source], view.outside, rules.pull)
        if isinstance(pulled, Rows):
            pulled = pulled.dense()
        _add(pulled, seed, weights, source, outputs, seeds)
    return outputs, seeds


def _add_forward(
    view: View,
    rules: PythonRules,
    target: Node,
    source: Node,
    coloured: Coloured,
    outputs: list[Node],
    seeds: dict[Node, Value],
    blocked: Collection[Node],
) -> None:
    directions = coloured.forward_seeds(source.dtype).reshape(-1, *source.shape)
    seed = placeholder(source.spec)
    (pushed,) = forward([target], [source], [seed], blocked, rules.push)
    _add(pushed, seed, directions, target, outputs, seeds)


def _add(
    linear: Node | None,
    seed: Node,
    directions: Any,
    like: Node,
    outputs: list[Node],
    seeds: dict[Node, Value],
) -> None:
    """The products of a linear graph with all directions, as one output of the program."""
    count = len(directions)
    if linear is None or not count:
        return
    of = spec(directions.shape, directions.dtype)
    given = placeholder(of)
    seeds[given] = Value(np.ascontiguousarray(directions), of)
    (response,) = respond([linear], seed, Seeded(given, (0,), ()), (count,))
    dense = dense_form(response, like, (count,)).value
    outputs.append(reshape_node(dense, (count, *like.shape)))


def _prepared(
    view: View, coloured: Coloured, outputs: Sequence[Node], seeds: dict[Node, Value], dtype: Any
) -> Prepared:
    found = program(outputs, view.recording.values.keys())
    bindings: list[int | Node] = [
        node.params[0] if node.op is LEAF and isinstance(node.params[0], int) else node
        for node in found.inputs
    ]
    plan = plan_for(found)
    specs = [node.spec for node in found.outputs]

    def run(inputs: Sequence[Any]) -> list[Any]:
        return [Value(c, of).array for c, of in zip(plan.run(inputs), specs, strict=True)]

    return Prepared(coloured, run, tuple(bindings), seeds, dtype)


def _known(view: View, targets: list[Node], source: Node) -> dict[Node, Any]:
    return known_positions(view.recording, targets, source, view.outside)


def _contents(view: View, targets: list[Node], source: Node) -> tuple[Any, ...]:
    """What tells two meshes apart: the bytes of the integers that index."""
    found = _known(view, targets, source)
    return tuple(hashlib.blake2b(array.tobytes()).digest() for array in found.values())
