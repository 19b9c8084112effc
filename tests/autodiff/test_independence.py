"""Independence of examples: what is proved, what is refused, and that nothing wrong is proved."""

import importlib
import pkgutil
from typing import Any

import numpy as np
import pytest
from tests.ops.cases import Case, at_samples

import gradtape as gt
from gradtape import ops
from gradtape.autodiff.independence import check_independence
from gradtape.autodiff.jacobian import jacobian
from gradtape.autodiff.window import Request
from gradtape.errors import MixedExamplesError, UndefinedRuleError
from gradtape.ir.node import apply, outputs, placeholder
from gradtape.ir.program import program
from gradtape.ir.spec import spec
from gradtape.ops.families.independence import DependenceError
from gradtape.runtime.numpy_plan import NumpyPlan

for module in pkgutil.walk_packages(ops.__path__, prefix="gradtape.ops."):
    importlib.import_module(module.name)

RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(4, 5))
INDICES = np.array([3, 0, 2])
MASK = np.array([True, False, True, True])


def rows(x):
    """Matrices, one for each example, that can be inverted."""
    return gt.reshape(x, (-1, 2, 2)) * 0.1 + 2.0 * np.eye(2)


def symmetric(x):
    m = rows(x)
    return m + gt.matrix_transpose(m)


def loop(x):
    """A recurrence over features, written as a Python loop."""
    state = x[:, 0] * 0.0
    for place in range(x.shape[1]):
        state = gt.tanh(state + x[:, place])
    return state


def by_mutation(x):
    y = x * 1.0
    y[:, 1] = gt.sin(x[:, 0])
    y[:, 2:] = x[:, :2] * x[:, 2:]
    return y


INDEPENDENT = {
    "identity": lambda x: x,
    "element-wise": lambda x: gt.sin(x) * x + x**2 / (1.0 + gt.exp(x)),
    "weights": lambda x: gt.tanh(x @ WEIGHTS + np.arange(5.0)),
    "weights from the left": lambda x: gt.matrix_transpose(WEIGHTS.T @ gt.matrix_transpose(x)),
    "perceptron": lambda x: gt.relu(x @ WEIGHTS) @ WEIGHTS.T,
    "product of rows": lambda x: gt.sum(x * x[:, ::-1], axis=1),
    "vecdot": lambda x: gt.vecdot(x, gt.sin(x)),
    "outer product of each row": lambda x: gt.einsum("bi,bj->bij", x, x),
    "einsum": lambda x: gt.einsum("bi,io->bo", x, WEIGHTS),
    "einsum, batch last": lambda x: gt.einsum("bi,io->ob", x, WEIGHTS).T,
    "bilinear": lambda x: gt.einsum("bi,ij,bj->b", x, WEIGHTS @ WEIGHTS.T, x),
    "softmax": lambda x: gt.nn.softmax(x, axis=-1),
    "logsumexp": lambda x: gt.logsumexp(x, axis=1),
    "layer normalisation": lambda x: (
        (x - gt.mean(x, axis=-1, keepdims=True)) / gt.sqrt(gt.var(x, axis=-1, keepdims=True) + 1e-3)
    ),
    "norm of rows": lambda x: x / gt.linalg.vector_norm(x, axis=1, keepdims=True),
    "convolution by slices": lambda x: x[:, 2:] - 2.0 * x[:, 1:-1] + x[:, :-2],
    "sort along features": lambda x: gt.sort(x, axis=1),
    "largest feature": lambda x: gt.max(x, axis=1),
    "argmax": lambda x: gt.take_along_axis(x, gt.argmax(x, axis=1, keepdims=True), axis=1),
    "cumulative sum along features": lambda x: gt.cumulative_sum(x, axis=1),
    "roll of features": lambda x: gt.roll(x, 1, axis=1),
    "flip of features": lambda x: gt.flip(x, axis=1),
    "solve": lambda x: gt.linalg.solve(rows(x), np.array([1.0, 2.0])),
    "inverse": lambda x: gt.linalg.inv(rows(x)),
    "cholesky": lambda x: gt.linalg.cholesky(symmetric(x)),
    "determinant": lambda x: gt.linalg.det(rows(x)),
    "eigenvalues": lambda x: gt.linalg.eigvalsh(symmetric(x)),
    "matrix products": lambda x: rows(x) @ rows(x),
    "matrix times vector": lambda x: (rows(x) @ x[:, :2, None])[..., 0],
    "stacked rows": lambda x: gt.stack([gt.sin(x[0]), x[1] * x[1], x[2]]),
    "rows joined again": lambda x: gt.concat([x[:1] * 2.0, x[1:]]),
    "features joined": lambda x: gt.concat([x, x * x], axis=1),
    "features stacked": lambda x: gt.stack([x, x * x], axis=-1),
    "batch in the middle": lambda x: gt.moveaxis(gt.stack([x, x * x]), 0, 1),
    "chosen features": lambda x: gt.take(x, INDICES, axis=1),
    "masked features": lambda x: x[:, MASK],
    "features by numbers": lambda x: x[:, INDICES],
    "image and back": lambda x: gt.reshape(gt.reshape(x, (-1, 2, 2)).mT, (-1, 4)),
    "flattened": lambda x: gt.reshape(gt.reshape(x, (-1,)) ** 2, (-1, 4)),
    "where": lambda x: gt.where(x > 0.0, x, gt.exp(x)),
    "where by row": lambda x: gt.where(x[:, :1] > 0.0, x, 0.0),
    "recurrence": loop,
    "mutation": by_mutation,
    "padded features": lambda x: gt.pad(x, ((0, 0), (1, 1))),
    "repeated features": lambda x: gt.repeat(x, 2, axis=1),
    "tiled features": lambda x: gt.tile(x, (1, 2)),
    "fourier": lambda x: gt.abs(gt.fft.rfft(x, axis=1)),
    "stopped mean": lambda x: x - gt.stop_gradient(gt.mean(x, axis=0)),
    "broadcast": lambda x: x[:, None, :] * x[:, :, None],
    "vmap": lambda x: gt.vmap(lambda row: gt.sort(row) * gt.sum(row))(x),
    "checkpoint": lambda x: gt.checkpoint(lambda x: gt.tanh(x @ WEIGHTS))(x),
    "constant": lambda x: x * 0.0 + RNG.normal(size=(3, 4)),
    "triangle": lambda x: gt.tril(gt.einsum("bi,bj->bij", x, x)),
    "differences": lambda x: gt.diff(x, axis=1),
    "cross product": lambda x: gt.linalg.cross(x[:, :3], gt.sin(x[:, 1:])),
    "rows of a triangle": lambda x: gt.tril(x),
    "scattered features": lambda x: gt.scatter_add(x.T * 2.0, INDICES, x.T[:3]).T,
    "quotient by row sum": lambda x: x / gt.sum(x * x + 1.0, axis=1, keepdims=True),
    "clip": lambda x: gt.clip(x, -0.5, 0.5),
    "cast": lambda x: gt.cast(gt.cast(x, "float32"), "float64"),
    "several products": lambda x: gt.prod(x, axis=1),
    "kron of rows": lambda x: gt.reshape(x[:, :, None] * x[:, None, :], (-1, 16)),
}

MIXED = {
    "mean": (lambda x: x - gt.mean(x, axis=0), "mixes"),
    "batch normalisation": (lambda x: x / gt.sqrt(gt.var(x, axis=0) + 1.0), "mixes"),
    "sum of all": (lambda x: x * gt.sum(x), "mixes"),
    "sort along the batch": (lambda x: gt.sort(x, axis=0), "mixes"),
    "gram matrix": (lambda x: x @ x.T, "mixes"),
    "flip": (lambda x: gt.flip(x, axis=0), "mixes"),
    "reversed": (lambda x: x[::-1] * 1.0, "mixes"),
    "roll": (lambda x: gt.roll(x, 1, axis=0), "mixes"),
    "cumulative sum": (lambda x: gt.cumulative_sum(x, axis=0), "mixes"),
    "other rows": (lambda x: x[np.array([1, 2, 0])], "mixes"),
    "first row": (lambda x: x * x[:1], "mixes"),
    "neighbours": (lambda x: gt.concat([x[1:], x[:1]]), "mixes"),
    "softmax over examples": (lambda x: gt.nn.softmax(x, axis=0), "mixes"),
    "transposed": (lambda x: (x[:, :3] * 1.0).T, "mixes"),
    "largest": (lambda x: x / gt.max(gt.abs(x)), "mixes"),
    "fourier": (lambda x: gt.real(gt.fft.fft(x, axis=0)), "mixes"),
    "einsum": (lambda x: gt.einsum("bi,ci->bc", x, x), "mixes"),
    "differences": (lambda x: gt.concat([gt.diff(x, axis=0), x[:1]]), "mixes"),
}


def recorded(f, data):
    x = gt.asarray(data)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
    return tape, y, x


def numbers(count=3):
    return np.random.default_rng(1).uniform(-1.0, 1.0, (count, 4))


@pytest.mark.parametrize("name", INDEPENDENT)
def test_independent(name):
    tape, y, x = recorded(INDEPENDENT[name], numbers())
    whole = tape.jacobian(y, x).numpy()
    for mode in ("auto", "forward", "reverse"):
        found = tape.batch_jacobian(y, x, mode=mode).numpy()
        assert found.shape == (3, *y.shape[1:], 4)
        for row in range(3):
            expected = np.take(whole[row], row, axis=y.ndim - 1)
            np.testing.assert_allclose(found[row], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", MIXED)
def test_mixed(name):
    f, word = MIXED[name]
    tape, y, x = recorded(f, numbers())
    with pytest.raises(MixedExamplesError, match=word):
        tape.batch_jacobian(y, x)
    assert tape.batch_jacobian(y, x, check=False).shape[0] == 3


def test_the_op_is_named():
    for f, op in (
        (lambda x: gt.sort(x, axis=0), "sort"),
        (lambda x: x @ x.T, "matmul"),
        (lambda x: gt.cumulative_sum(x, axis=0), "cumulative_sum"),
        (lambda x: gt.roll(x, 1, axis=0), "roll"),
        (lambda x: x - gt.mean(x, axis=0), "mean: sum"),
        (lambda x: gt.nn.softmax(x, axis=0), "softmax: sum"),
        (lambda x: gt.nn.log_softmax(x, axis=0), "log_softmax: sum"),
        (lambda x: gt.flip(x, axis=0), "flip: slice"),
        (lambda x: x - gt.median(x, axis=0), "median: order_statistic"),
        (lambda x: x - gt.quantile(x, 0.1, axis=0), "quantile: order_statistic"),
        (lambda x: x[np.array([1, 0, 2])], "gather"),
        (lambda x: gt.cumulative_prod(x, axis=0), "cumulative_prod"),
    ):
        tape, y, x = recorded(f, numbers())
        with pytest.raises(MixedExamplesError, match=f"batch_jacobian: {op} mixes examples"):
            tape.batch_jacobian(y, x)


def test_cannot_prove_names_the_op():
    tape, y, x = recorded(
        lambda x: gt.py_function(lambda x: x * x, [x], ((3, 4), gt.float64)), numbers()
    )
    with pytest.raises(MixedExamplesError, match="cannot prove that py_function keeps"):
        tape.batch_jacobian(y, x)
    tape, y, x = recorded(lambda x: gt.roll(x, 1), numbers())
    with pytest.raises(MixedExamplesError, match="cannot prove that roll keeps"):
        tape.batch_jacobian(y, x)
    plus = gt.custom_gradient(lambda x: (x * 2.0, lambda g: g))
    tape, y, x = recorded(plus, numbers())
    named = "cannot prove that custom_gradient: custom_derivative keeps examples apart"
    with pytest.raises(MixedExamplesError, match=named):
        tape.batch_jacobian(y, x)


def test_square_batches_are_not_confused():
    """As many features as examples: a transpose must be seen."""
    for f in (lambda x: x.T * 1.0, lambda x: x @ x, lambda x: gt.cumulative_sum(x.T, axis=1)):
        tape, y, x = recorded(f, numbers(4))
        with pytest.raises(MixedExamplesError):
            tape.batch_jacobian(y, x)
    tape, y, x = recorded(lambda x: gt.reshape(gt.reshape(x, (16,)), (4, 4)), numbers(4))
    np.testing.assert_array_equal(tape.batch_jacobian(y, x).numpy(), np.stack([np.eye(4)] * 4))


def test_other_sources_do_not_count():
    """Mixing of what does not depend on the source is no matter."""
    x, other = gt.asarray(numbers()), gt.asarray(numbers())
    with gt.GradientTape() as tape:
        tape.watch([x, other])
        y = x * gt.mean(other, axis=0) + gt.flip(other, axis=0)
    assert tape.batch_jacobian(y, x).shape == (3, 4, 4)


def test_what_was_recorded_outside_does_not_count():
    x = gt.asarray(numbers())
    mean = gt.mean(x, axis=0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x - mean
    np.testing.assert_array_equal(tape.batch_jacobian(y, x).numpy(), np.stack([np.eye(4)] * 3))


@pytest.mark.parametrize("count", [0, 1])
def test_few_examples(count):
    tape, y, x = recorded(lambda x: gt.tanh(x @ WEIGHTS), numbers(count))
    assert tape.batch_jacobian(y, x).numpy().shape == (count, 5, 4)
    tape, y, x = recorded(lambda x: x - gt.mean(x, axis=0, keepdims=True) * 0.0, numbers(1))
    assert tape.batch_jacobian(y, x).numpy().shape == (1, 4, 4)


def test_scalars_of_examples():
    tape, y, x = recorded(lambda x: x**2 + gt.sin(x), np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(tape.batch_jacobian(y, x).numpy(), 2 * x.numpy() + np.cos(x.numpy()))


def test_targets_of_higher_rank():
    tape, y, x = recorded(lambda x: x[:, None, :, None] * np.ones((2, 1, 3)), numbers())
    found = tape.batch_jacobian(y, x).numpy()
    assert found.shape == (3, 2, 4, 3, 4)
    np.testing.assert_array_equal(found[1, 0, :, 2], np.eye(4))


def test_a_new_batch_size_compiles_no_kernel():
    def ask(count):
        tape, y, x = recorded(lambda x: gt.tanh(x @ WEIGHTS), numbers(count))
        return tape.batch_jacobian(y, x).numpy()

    for count in (64, 64, 64, 96, 96, 96):
        ask(count)
    before = gt.counters().kernels_compiled
    for count in (128, 200, 77):
        for _ in range(3):
            expected = np.einsum("bo,io->boi", 1 - np.tanh(numbers(count) @ WEIGHTS) ** 2, WEIGHTS)
            np.testing.assert_allclose(ask(count), expected, rtol=1e-10)
    assert gt.counters().kernels_compiled == before


# Every op, on every sample: a proof of independence must be true.


def may_be_independent(case: Case) -> bool:
    return case.op.family not in ("random", "callback") and bool(batches(case))


def batches(case: Case) -> list[int]:
    """The positions of the operands that may be a batch of examples."""
    return [
        position
        for position, array in enumerate(case.inputs)
        if array.dtype.kind == "f" and array.ndim and array.shape[0] > 1 and array.size < 200
    ]


@at_samples(may_be_independent)
def test_a_proof_is_true(cases):
    for case in cases:
        for position in batches(case):
            check_proof(case.op, case.sample, case.inputs, position)


def check_proof(op: Any, sample: Any, arrays: Any, position: int) -> None:
    nodes = [placeholder(spec(array.shape, array.dtype)) for array in arrays]
    root = apply(op, tuple(nodes), tuple(sample.params[name] for name in op.params))
    source = nodes[position]
    count = source.shape[0]
    for target in outputs(root) if isinstance(root.spec, tuple) else (root,):
        if not target.shape or target.shape[0] != count or target.dtype.kind != "f":
            continue
        try:
            check_independence(target, source)
            found = jacobian(target, Request(source, "reverse"))
        except (DependenceError, UndefinedRuleError):
            continue
        if found is None:
            continue
        steps = program([found])
        values = [arrays[nodes.index(node)] for node in steps.inputs]
        with np.errstate(all="ignore"):
            (matrix,) = NumpyPlan(steps).run(values)
        matrix = np.nan_to_num(matrix)
        matrix = np.moveaxis(matrix, target.ndim, 1)
        for row in range(count):
            for other in range(count):
                assert row == other or not matrix[row, other].any(), (row, other)
