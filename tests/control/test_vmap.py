"""vmap: what it promises to users, against a loop over the examples."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import NoValueError, ShapeError
from gradtape.pytree import register_pytree
from gradtape.trace.recording import state

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(4, 3))
MATRIX = RNG.normal(size=(3, 3))


def loop(f: Any, *columns: Any) -> Any:
    """What vmap stands for."""
    rows = [gt.pytree.flatten(f(*map(gt.asarray, row))) for row in zip(*columns, strict=True)]
    columns = zip(*[leaves for leaves, _ in rows], strict=True)
    stacked = [np.stack([np.asarray(x) for x in column]) for column in columns]
    return gt.pytree.unflatten(rows[0][1], stacked)


def close(got: Any, expected: Any) -> None:
    got, expected = gt.pytree.flatten(got)[0], gt.pytree.flatten(expected)[0]
    for a, b in zip(got, expected, strict=True):
        a, b = (x.numpy() if hasattr(x, "numpy") else np.asarray(x) for x in (a, b))
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def check(f: Any, *columns: Any) -> None:
    close(gt.vmap(f)(*columns), loop(f, *columns))


# Arguments and results.


def test_equals_a_loop():
    check(lambda x: gt.sin(x) * x + 1.0, ROWS)
    check(lambda x, y: (x @ y, {"sum": gt.sum(x) + gt.max(y)}), ROWS, ROWS + 1.0)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_in_axes_name_any_axis(axis):
    x = RNG.normal(size=(2, 3, 4))
    expected = loop(gt.sum, np.moveaxis(x, axis, 0))
    close(gt.vmap(gt.sum, in_axes=axis)(x), expected)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_out_axes_name_any_axis(axis):
    x = RNG.normal(size=(4, 2, 3))
    close(gt.vmap(lambda x: x * 2.0, out_axes=axis)(x), np.moveaxis(x * 2.0, 0, axis))


def test_none_is_what_all_examples_share():
    close(gt.vmap(lambda x, m: m @ x, in_axes=(0, None))(ROWS, MATRIX), ROWS @ MATRIX.T)
    close(gt.vmap(lambda x, m: m @ x, in_axes=[0, None])(ROWS, MATRIX), ROWS @ MATRIX.T)


def test_arguments_that_are_not_mapped_are_passed_as_they_are():
    def f(x, how, scale):
        assert how == "double"
        assert type(scale) is float
        return x * scale

    close(gt.vmap(f, in_axes=(0, None, None))(ROWS, "double", 2.0), ROWS * 2.0)


def test_nested_arguments_and_axes():
    params = {"w": MATRIX, "b": [RNG.normal(size=3), RNG.normal(size=(3, 4))]}

    def f(x, p):
        return p["w"] @ x + p["b"][0] + p["b"][1]

    got = gt.vmap(f, in_axes=(0, {"w": None, "b": [None, 1]}))(ROWS, params)
    close(got, ROWS @ MATRIX.T + params["b"][0] + params["b"][1].T)


def test_keyword_arguments_are_mapped_over_axis_0():
    found = gt.vmap(lambda x, scale: x * scale)(ROWS, scale=np.arange(4.0))
    close(found, ROWS * np.arange(4.0)[:, None])


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Point:
    x: Any
    y: Any


class Box:
    def __init__(self, content):
        self.content = content


register_pytree(Box, lambda box: ((box.content,), None), lambda _, children: Box(*children))


def test_containers_of_all_kinds():
    found = gt.vmap(lambda p: Pair(p.x + p.y, Box(p.x)))(Point(ROWS, ROWS * 2.0))
    assert type(found) is Pair
    assert type(found.second) is Box
    close(found.first, ROWS * 3.0)
    close(found.second.content, ROWS)


def test_nested_out_axes():
    f = gt.vmap(lambda x: {"a": x, "b": (gt.sum(x), x * x)}, out_axes={"a": 1, "b": (0, -1)})
    found = f(ROWS)
    close(found["a"], ROWS.T)
    close(found["b"][0], ROWS.sum(1))
    close(found["b"][1], (ROWS * ROWS).T)


def test_results_that_all_examples_share():
    close(gt.vmap(lambda x: gt.ones(2))(ROWS), np.ones((4, 2)))
    close(gt.vmap(lambda x: 3.0, out_axes=None)(ROWS), np.array(3.0))
    close(gt.vmap(lambda x: (x, gt.ones(2)), out_axes=(0, None))(ROWS), (ROWS, np.ones(2)))
    close(gt.vmap(lambda x: gt.ones(2), out_axes=1)(ROWS), np.ones((2, 4)))


def test_none_among_results():
    assert gt.vmap(lambda x: (x, None))(ROWS)[1] is None


def test_results_can_be_written_to():
    y = gt.vmap(lambda x: gt.reshape(x, (3, 1)))(ROWS)
    y[0] = 0.0
    assert not y.numpy()[0].any()


def test_integers_and_booleans():
    x = np.arange(12).reshape(4, 3)
    found = gt.vmap(lambda x: (gt.sum(x), x > 4, gt.argmax(x)))(x)
    assert [y.dtype.kind for y in found] == ["i", "b", "i"]
    np.testing.assert_array_equal(found[1].numpy(), x > 4)


def test_no_examples():
    found = gt.vmap(lambda x: (gt.sum(x), x @ MATRIX, gt.linalg.inv(gt.outer(x, x))))(ROWS[:0])
    assert [y.shape for y in found] == [(0,), (0, 3), (0, 3, 3)]
    assert gt.vmap(gt.grad(gt.sum))(ROWS[:0]).numpy().shape == (0, 3)
    assert gt.vmap(gt.sum, chunk_size=2)(ROWS[:0]).shape == (0,)


# Errors.


def test_differing_lengths_are_named():
    def f(x, y, *, z):
        return x + y + z

    with pytest.raises(ShapeError) as caught:
        gt.vmap(f, in_axes=(0, 1))(np.ones(3), np.ones((3, 4)), z=np.ones(3))
    message = str(caught.value)
    assert "argument 0 (x) has 3 (axis 0 of shape (3,))" in message
    assert "argument 1 (y) has 4 (axis 1 of shape (3, 4))" in message
    assert "keyword argument z has 3" in message


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: gt.vmap(gt.sin)(1.0), ShapeError, "argument 0 .*is 0-d"),
        (lambda: gt.vmap(gt.sin, in_axes=2)(ROWS), ShapeError, "axis 2 is out of range"),
        (lambda: gt.vmap(gt.sin, in_axes=None)(ROWS), ValueError, "nothing is mapped"),
        (lambda: gt.vmap(gt.add, in_axes=(0,))(ROWS, ROWS), ValueError, "1 entries"),
        (lambda: gt.vmap(gt.sin, in_axes="x")(ROWS), TypeError, "in_axes: 'x'"),
        (lambda: gt.vmap(gt.sin, in_axes=({"a": 0},))(ROWS), ValueError, "one leaf"),
        (lambda: gt.vmap(gt.sin, in_axes={"a": 0})({"a": ROWS}), TypeError, "one entry for each"),
        (lambda: gt.vmap(lambda x: x, out_axes=None)(ROWS), ValueError, "differs between examples"),
        (lambda: gt.vmap(lambda x: x, out_axes=2)(ROWS), ShapeError, "out_axes: axis 2"),
        (lambda: gt.vmap(lambda x: x, out_axes=(0, 0))(ROWS), ValueError, "one leaf"),
        (lambda: gt.vmap(gt.sin, chunk_size=0), ValueError, "chunk_size=0 is not a whole number"),
        (
            lambda: gt.vmap(gt.sin, chunk_size=True),
            TypeError,
            "chunk_size=True is not",
        ),
        (lambda: gt.vmap(lambda x: x)("text"), TypeError, "argument 0 .*cannot be mapped"),
    ],
)
def test_wrong_use_is_explained(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize(
    "look",
    [
        bool,
        float,
        int,
        repr,
        str,
        complex,
        np.asarray,
        lambda x: x.numpy(),
        lambda x: x.item(),
        lambda x: x.tolist(),
        lambda x: f"{x:.2f}",
        lambda x: 1.0 if x > 0.0 else 2.0,
        lambda x: gt.evaluate(x * 2.0),
        lambda x: gt.nonzero(gt.ones(2) * x),
        lambda x: gt.ones(3)[gt.ones(3) * x > 0.0],
    ],
)
def test_a_look_at_an_example_is_refused(look):
    with pytest.raises(NoValueError, match=r"inside vmap has no value.*gt\.where.*loop"):
        gt.vmap(look)(gt.asarray([1.0, 2.0]))
    # Nothing is left behind.
    close(gt.vmap(lambda x: x + 1.0)([gt.asarray([1.0, 2.0])][0]), np.array([2.0, 3.0]))


def test_an_error_inside_leaves_no_trace():
    recording = state.recording
    with pytest.raises(ZeroDivisionError):
        gt.vmap(lambda x: x * (1 / 0))(ROWS)
    assert state.recording is recording
    assert not recording.tapes
    assert state.tapes == []


def test_shape_errors_are_those_of_one_example():
    with pytest.raises(ShapeError, match=r"\(3,\) and \(2,\)"):
        gt.vmap(lambda x: x + gt.ones(2))(ROWS)


def test_a_tensor_that_escapes_is_refused():
    kept = []
    gt.vmap(lambda x: kept.append(x * 2.0) or x)(ROWS)
    with pytest.raises(NoValueError, match="used after it returned"):
        kept[0].numpy()
    with pytest.raises(NoValueError, match="Return it"):
        kept[0] + 1.0


# What comes from outside.


def test_pending_tensors_from_outside():
    w = gt.sin(gt.asarray(MATRIX))
    close(gt.vmap(lambda x: w @ x)(ROWS), ROWS @ np.sin(MATRIX).T)
    close(w, np.sin(MATRIX))


def test_looking_at_what_is_known_inside_works():
    w = gt.asarray(2.0) * 3.0

    def f(x):
        return x * 2.0 if float(w) > 5.0 and bool(w * w > 30.0) else x

    close(gt.vmap(f)(ROWS), ROWS * 2.0)
    v = gt.Variable(3.0)
    close(gt.vmap(lambda x: x * v.numpy() + float(v))(ROWS), ROWS * 3.0 + 3.0)


def test_gradients_by_what_is_outside_after_a_look_inside():
    w = gt.asarray(2.0)
    with gt.GradientTape() as tape:
        tape.watch(w)
        u = w * w
        y = gt.sum(gt.vmap(lambda x: x * u if float(u) > 0.0 else x)(ROWS))
    close(tape.gradient(y, w), 4.0 * ROWS.sum())


def test_variables_are_shared_and_watched():
    v = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        y = gt.sum(gt.vmap(lambda x: gt.sum(x) * v * v)(ROWS))
    assert tape.watched_variables() == (v,)
    close(tape.gradient(y, v), 4.0 * ROWS.sum())


def test_pending_updates_are_seen():
    v = gt.Variable(1.0)
    for step in range(5):
        v.assign_add(1.0)
        close(gt.vmap(lambda x: x * v)(ROWS), ROWS * (2.0 + step))


def test_assigning_an_example_is_refused():
    v = gt.Variable(1.0)
    with pytest.raises(NoValueError, match=r"assign: .* differs from example to example"):
        gt.vmap(lambda x: v.assign(x))(gt.asarray([1.0, 2.0]))
    assert float(v.value) == 1.0


def test_assigning_what_all_share_is_done_once():
    v, w = gt.Variable(1.0), gt.asarray(3.0)

    def f(x):
        v.assign_add(w * 2.0)
        return x * v

    close(gt.vmap(f)(ROWS), ROWS * 7.0)
    assert float(v.value) == 7.0


def test_gradient_through_an_assignment_inside():
    v, w = gt.Variable(1.0), gt.asarray(3.0)

    def f(x):
        with gt.GradientTape() as tape:
            tape.watch(w)
            v.assign(w * w)
            y = v * x
        return tape.gradient(y, w)

    close(gt.vmap(f)(gt.asarray([1.0, 2.0])), np.array([6.0, 12.0]))


def test_in_place_writes_inside():
    def f(x):
        y = x * 1.0
        y[0] = gt.sum(x)
        y[1:] += 1.0
        return y

    check(f, ROWS)


def test_control_flow_on_shapes_and_numbers():
    def f(x):
        total = 0.0
        for number, part in enumerate(x):
            total = total + part * number if number % 2 else total - part
        return total if x.ndim == 1 else None

    check(f, ROWS)


def test_indexing_of_all_kinds():
    indices = np.array([2, 0, 1, 2])
    check(lambda x, i: x[i], ROWS, indices)
    check(lambda x, i: gt.take(x, gt.stack([i, i]), axis=0), ROWS, indices)
    check(lambda x, i: x[gt.stack([i, 0])] * x[-1], ROWS, indices)

    def written(x, i):
        y = x * 1.0
        y[i] = 5.0
        y[x > 0.5] = 0.0
        return y

    check(written, ROWS, indices)
    check(lambda x, i: gt.scatter_add(x, gt.stack([i, i]), x[:2]), ROWS, indices)
    check(gt.grad(lambda x: gt.sum(gt.sort(x) * gt.asarray([1.0, 2.0, 3.0]))), ROWS)


def test_numpy_functions_record():
    check(lambda x: np.sin(x) + np.concatenate([x[:1], x[1:]]), ROWS)


def test_a_variable_can_be_mapped():
    v = gt.Variable(ROWS)
    with gt.GradientTape() as tape:
        y = gt.sum(gt.vmap(lambda row: gt.sum(row) ** 2)(v))
    close(tape.gradient(y, v), 2.0 * np.repeat(ROWS.sum(1, keepdims=True), 3, axis=1))


def test_complex_numbers():
    z = ROWS + 1j * ROWS[::-1]
    check(lambda z: gt.fft.fft(z) * gt.conj(z), z)
    check(gt.grad(lambda z: gt.sum(gt.abs(z * z))), z)


def test_threads():
    def work(number):
        rows = ROWS + number
        for _ in range(20):
            close(
                gt.vmap(gt.grad(lambda x: gt.sum(gt.sin(x * number))))(rows),
                np.cos(rows * number) * number,
            )
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


# Ops that can fail on values.


def test_what_can_fail_is_not_tried_before_there_are_values():
    def positive(x):
        return gt.outer(x, x) + gt.eye(3)

    check(lambda x: gt.linalg.cholesky(positive(x)), ROWS)
    check(lambda x: gt.linalg.solve(positive(x), x), ROWS)
    check(gt.grad(lambda x: gt.sum(gt.linalg.inv(positive(x)))), ROWS)
    check(lambda x: gt.linalg.eigh(positive(x)).eigenvalues, ROWS)


def test_what_fails_does_so_on_the_line_of_the_call():
    with pytest.raises(np.linalg.LinAlgError, match="cholesky: a matrix is not positive"):
        gt.vmap(gt.linalg.cholesky)(-np.eye(2)[None])
    x = gt.asarray([[1.0, 2.0]])
    with pytest.raises(IndexError, match="take: index 5 is out of range"):
        gt.vmap(lambda i: gt.take(x, i, axis=1))(np.array([0, 5]))
    close(x + 1.0, np.array([[2.0, 3.0]]))


def test_what_can_fail_is_tried_even_if_nothing_needs_it():
    def f(m):
        gt.linalg.cholesky(m)
        return gt.sum(m)

    with pytest.raises(np.linalg.LinAlgError):
        gt.vmap(f)(-np.eye(2)[None])
    with pytest.raises(np.linalg.LinAlgError):
        gt.vmap(gt.vmap(f))(-np.eye(2)[None, None])
    close(gt.vmap(f)(np.eye(2)[None]), np.array([2.0]))


def test_what_fails_of_what_is_known_fails_inside():
    bad = gt.asarray(-np.eye(2))

    def f(x):
        with pytest.raises(np.linalg.LinAlgError):
            gt.linalg.cholesky(bad)
        return x

    gt.vmap(f)(ROWS)


# vectorized_map.


def test_vectorized_map():
    close(gt.vectorized_map(lambda x: x * x, ROWS), ROWS * ROWS)
    found = gt.vectorized_map(lambda p: {"y": p[0] @ p[1]}, (ROWS, ROWS[:1]))
    close(found["y"], ROWS @ ROWS[0])
    close(gt.vectorized_map(lambda x: x + 1.0, np.ones((1, 2))), np.full((1, 2), 2.0))
    with pytest.raises(ShapeError, match="vectorized_map: the mapped axes differ"):
        gt.vectorized_map(lambda p: p[0] + p[1], (np.ones(2), np.ones(3)))
