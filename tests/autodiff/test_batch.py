"""One test for all ops: a batch is a loop over its examples, whatever is batched."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import numpy as np
import pytest
from tests.ops.cases import OPS, Case, at_samples

import gradtape as gt
import gradtape.control.callbacks  # it fills hooks that callbacks need
import gradtape.control.vmap
from gradtape.autodiff.batch import Unbatched, batch, batch_all
from gradtape.autodiff.modes import forward, reverse
from gradtape.errors import UndefinedRuleError
from gradtape.ir.node import apply, constant, outputs, placeholder
from gradtape.ir.op import REGISTRY, Op, Undefined
from gradtape.ir.program import program
from gradtape.ir.row_cotangents import Rows
from gradtape.ir.spec import spec
from gradtape.ir.verify import verify
from gradtape.ops.families.samples import Sample
from gradtape.pytree import flatten
from gradtape.runtime.numpy_plan import NumpyPlan
from gradtape.trace.record import record

# The same elements, and the same arithmetic on them: nothing may differ in any bit.
EXACT = ("movement", "indexing", "random", "sorting", "creation", "custom")


def run(nodes: Any, values: dict[Any, Any]) -> list[Any]:
    """The values of nodes, by NumPy's kernels."""
    found = verify(program(nodes))
    with np.errstate(all="ignore"):
        return NumpyPlan(found).run([values[node] for node in found.inputs])


def varied(array: Any, number: int) -> Any:
    """Another example like this one: valid wherever the sample is, as samples are not extreme."""
    if number == 0 or not array.size:
        return array
    if array.dtype.kind in "fc":
        return (array * array.dtype.type(1 + 0.01 * number)).astype(array.dtype)
    return array


def examples(op: Op, position: int, array: Any, size: int) -> list[Any]:
    """Examples that differ, as far as the operand may."""
    if op.family == "indexing" and array.dtype.kind in "iu" and array.ndim and array.size:
        return [np.roll(array, number, axis=-1) for number in range(size)]
    if op.family == "random" and position == 0:
        return [array + np.array([0, 0, 5 * number, 0], array.dtype) for number in range(size)]
    if array.dtype.kind in "biu" and array.size and op.family not in ("indexing", "movement"):
        return [np.roll(array.reshape(-1), number).reshape(array.shape) for number in range(size)]
    return [varied(array, number) for number in range(size)]


def operands(op: Op, sample: Sample) -> list[Any]:
    return [np.array(array, order="C") for array in sample.inputs]


def applied(op: Op, nodes: Any, sample: Sample) -> tuple[Any, ...]:
    root = apply(op, tuple(nodes), tuple(sample.params[name] for name in op.params))
    return outputs(root) if isinstance(root.spec, tuple) else (root,)


def close(op: Op, got: Any, expected: Any) -> None:
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    if got.dtype.kind in "biu" or op.family in EXACT:
        np.testing.assert_array_equal(got, expected)
    else:
        single = got.dtype in (np.dtype("float32"), np.dtype("complex64"))
        tolerance = 2e-4 if single else 1e-9
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def subsets(count: int) -> list[tuple[bool, ...]]:
    found = [flags for flags in itertools.product((True, False), repeat=count) if any(flags)]
    return (
        found
        if count <= 4
        else [(True,) * count, *[tuple(i == j for j in range(count)) for i in range(count)]]
    )


class Setting:
    """An op at a sample, with some operands batched."""

    def __init__(self, op: Op, sample: Sample, flags: tuple[bool, ...], size: int) -> None:
        self.op, self.sample, self.flags, self.size = op, sample, flags, size
        arrays = operands(op, sample)
        self.single = [placeholder(spec(array.shape, array.dtype)) for array in arrays]
        self.examples = [
            examples(op, position, array, size) if flag else [array] * size
            for position, (array, flag) in enumerate(zip(arrays, flags, strict=True))
        ]
        self.batched: dict[Any, Any] = {}
        self.values: dict[Any, Any] = {}
        for node, array, column, flag in zip(
            self.single, arrays, self.examples, flags, strict=True
        ):
            if flag:
                many = placeholder(spec((size, *array.shape), array.dtype))
                self.batched[node] = many
                self.values[many] = (
                    np.stack(column) if size else np.zeros((0, *array.shape), array.dtype)
                )
            else:
                self.values[node] = array
        self.results = applied(op, self.single, sample)

    def loop(self, targets: Any, more: dict[Any, list[Any]] | None = None) -> list[Any]:
        """Targets of one example, for each in turn, stacked."""
        rows = []
        for number in range(self.size):
            values = {
                node: column[number]
                for node, column in zip(self.single, self.examples, strict=True)
            }
            values |= {node: column[number] for node, column in (more or {}).items()}
            rows.append(run(targets, values))
        return [np.stack(column) for column in zip(*rows, strict=True)]


def settings(cases: list[Case], sizes: tuple[int, ...]) -> Any:
    for case in cases:
        for flags in subsets(len(case.sample.inputs)):
            for size in sizes:
                yield Setting(case.op, case.sample, flags, size)


def has_operands(case: Case) -> bool:
    return case.op.family != "creation"


def test_every_op_says_how_it_is_batched():
    silent = [op.name for op in REGISTRY.values() if op.batch is None]
    assert not silent


@pytest.mark.parametrize("op", [op for op in OPS if op.family == "creation"], ids=lambda o: o.name)
def test_constants_are_not_batched(op):
    (sample, *_) = op.samples()
    (found,) = batch(applied(op, (), sample), {})
    assert isinstance(found, Unbatched)
    assert isinstance(op.batch, Undefined)


@at_samples(has_operands)
def test_batch_equals_loop(cases):
    for case in settings(cases, (3, 1)):
        found = batch_all(case.results, case.batched, case.size)
        for got, expected in zip(run(found, case.values), case.loop(case.results), strict=True):
            close(case.op, got, expected)


@at_samples(has_operands)
def test_no_examples(cases):
    for case in settings(cases, (0,)):
        found = batch_all(case.results, case.batched, 0)
        for got, of in zip(run(found, case.values), case.results, strict=True):
            assert (got.shape, got.dtype) == ((0, *of.shape), of.dtype)


@at_samples(has_operands, most=6)
def test_batch_of_batch_equals_loop(cases):
    for op, sample in ((case.op, case.sample) for case in cases):
        for flags in subsets(len(sample.inputs)):
            # One operand at a time gets the second axis: mixtures are where rules go wrong.
            for position in range(len(flags)):
                case = Setting(op, sample, flags, 2)
                inner = batch_all(case.results, case.batched, 2)
                node = case.single[position]
                source = case.batched.get(node, node)
                column = [case.values[source], *[_other(op, position, case.values[source])]]
                many = placeholder(spec((2, *source.shape), source.dtype))
                found = batch_all(inner, {source: many}, 2)
                got = run(found, {**case.values, many: np.stack(column)})
                rows = [run(inner, {**case.values, source: one}) for one in column]
                for result, *expected in zip(got, *rows, strict=True):
                    close(op, result, np.stack(expected))


@at_samples(has_operands)
def test_vmap_over_the_last_axis_equals_loop(cases):
    for op, sample in ((case.op, case.sample) for case in cases):
        params = tuple(sample.params[name] for name in op.params)
        for flags in subsets(len(sample.inputs)):
            case = Setting(op, sample, flags, 3)
            given = [
                np.stack(column, axis=-1) if flag else column[0]
                for column, flag in zip(case.examples, flags, strict=True)
            ]
            axes = tuple(-1 if flag else None for flag in flags)
            mapped = gt.vmap(lambda *xs, op=op, p=params: record(op, xs, p), in_axes=axes)
            found = flatten(mapped(*map(gt.asarray, given)))[0]
            for got, expected in zip(found, case.loop(case.results), strict=True):
                close(op, got.numpy(), expected)


def _other(op: Op, position: int, array: Any) -> Any:
    if op.family == "indexing" and array.dtype.kind in "iu" and array.ndim > 1:
        return np.roll(array, 1, axis=0)
    if op.family == "random" and position == 0:
        return array + np.array([0, 0, 7, 0], array.dtype)
    return varied(array, 2)


def is_differentiable(case: Case) -> bool:
    rules = (case.op.vjp, case.op.jvp)
    return bool(case.inexact) and not any(isinstance(rule, Undefined) for rule in rules)


def refusal_allowed(sample: Sample) -> Any:
    return contextlib.suppress(*((UndefinedRuleError,) if sample.order == 0 else ()))


def seeds(rng: Any, nodes: Any) -> tuple[list[Any], dict[Any, list[Any]]]:
    """A placeholder for each node, and three values for each."""
    made = [placeholder(node.spec) for node in nodes]
    values = {}
    for node in made:
        column = rng.normal(size=(3, *node.shape))
        if node.dtype.kind == "c":
            column = column + 1j * rng.normal(size=column.shape)
        values[node] = list(column.astype(node.dtype))
    return made, values


def check_derivative(case: Setting, targets: list[Any], given: dict[Any, list[Any]]) -> None:
    many = {node: placeholder(spec((3, *node.shape), node.dtype)) for node in given}
    values = {**case.values, **{many[node]: np.stack(column) for node, column in given.items()}}
    for batched in ({**case.batched, **many}, case.batched):
        # Seeds batched too, or the first of them for all examples.
        column = (
            given if len(batched) > len(case.batched) else {n: c[:1] * 3 for n, c in given.items()}
        )
        found = batch_all(targets, batched, 3)
        own = {**values, **{node: one[0] for node, one in column.items()}}
        for got, expected in zip(run(found, own), case.loop(targets, column), strict=True):
            close(case.op, got, expected)


@at_samples(is_differentiable, most=8)
def test_batched_reverse_mode(cases):
    rng = np.random.default_rng(0)
    for case in settings(cases, (3,)):
        targets = [node for node in case.results if node.spec.inexact]
        sources = [node for node in case.single if node.spec.inexact]
        with refusal_allowed(case.sample):
            cotangents, given = seeds(rng, targets)
            pulled = reverse(targets, cotangents, sources)
            dense = [p.dense() if isinstance(p, Rows) else p for p in pulled if p is not None]
            check_derivative(case, dense, given)


@at_samples(is_differentiable, most=8)
def test_batched_forward_mode(cases):
    rng = np.random.default_rng(1)
    for case in settings(cases, (3,)):
        targets = [node for node in case.results if node.spec.inexact]
        sources = [node for node in case.single if node.spec.inexact]
        with refusal_allowed(case.sample):
            tangents, given = seeds(rng, sources)
            pushed = [node for node in forward(targets, sources, tangents) if node is not None]
            check_derivative(case, pushed, given)


def names(nodes: Any) -> list[str]:
    return [node.op.name for node in program(nodes).nodes]


def matrix(*shape: int) -> Any:
    return placeholder(spec(shape, np.dtype("float64")))


@pytest.mark.parametrize("position", [0, 1])
def test_a_shared_matrix_makes_one_product(position):
    shared, single, many = matrix(4, 4), matrix(4, 4), matrix(5, 4, 4)
    pair = (shared, single) if position else (single, shared)
    (found,) = batch([apply(REGISTRY["matmul"], pair)], {single: many})
    products = [node for node in program([found]).nodes if node.op.name == "matmul"]
    assert len(products) == 1
    assert products[0].ndim == 2
    assert "broadcast_to" not in names([found])


def test_a_layer_of_vectors_is_one_matrix_product():
    weights, single, many = matrix(4, 3), matrix(4), matrix(5, 4)
    (found,) = batch([apply(REGISTRY["matmul"], (single, weights))], {single: many})
    assert names([found]) == ["matmul"]


def test_a_shared_matrix_is_factored_once():
    shared, single, many = matrix(4, 4), matrix(4, 1), matrix(5, 4, 1)
    (found,) = batch([apply(REGISTRY["solve"], (shared, single))], {single: many})
    (solve,) = [node for node in program([found]).nodes if node.op.name == "solve"]
    assert solve.inputs[0] is shared


def test_what_does_not_depend_on_examples_stays():
    shared, single, many = matrix(3), matrix(3), matrix(5, 3)
    squared = shared * shared
    found = batch([squared * single, squared], {single: many})
    assert found[1] == Unbatched(squared)
    assert squared in found[0].inputs


def test_one_hot_seeds_give_a_jacobian():
    x = placeholder(spec((3,), np.dtype("float64")))
    y = x * x
    seed, many = placeholder(y.spec), placeholder(spec((3, 3), np.dtype("float64")))
    (slope,) = reverse([y], [seed], [x])
    (jacobian,) = batch([slope], {seed: many})
    value = np.array([1.0, 2.0, 3.0])
    (got,) = run([jacobian], {x: value, many: np.eye(3)})
    np.testing.assert_array_equal(got, np.diag(2 * value))


def test_undefined_rule_says_why():
    node = constant(1, spec((), np.dtype("float64")))
    with pytest.raises(UndefinedRuleError, match="none is declared"):
        batch([_undeclared(node)], {node: matrix(2)})


def _undeclared(node: Any) -> Any:
    why = Undefined("a test")
    op = Op("undeclared", "test", spec=lambda x: x, numpy=lambda x: x, jvp=why, vjp=why)
    return apply(op, (node,))
