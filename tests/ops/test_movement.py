"""Movement, joining, padding and triangles, against NumPy and against finite differences."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from gradtape.errors import InPlaceError, ShapeError
from gradtape.ops.arrays import joining, movement, padding, triangles
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tensor.tensor import Tensor, asarray
from gradtape.testing import check_gradients

X = np.arange(24.0).reshape(2, 3, 4) * 0.25 - 2


def same(got, expected):
    """Equal values, shape and dtype; nests are compared item by item."""
    if isinstance(expected, (list, tuple)):
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            same(one, other)
        return
    expected = np.asarray(expected)
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(got.numpy(), expected)


# Function of a tensor, what NumPy makes of the same array.
CASES = {
    "reshape": (lambda x: movement.reshape(x, (4, -1)), lambda x: x.reshape(4, -1)),
    "broadcast_to": (
        lambda x: movement.broadcast_to(x, (2, 2, 3, 4)),
        lambda x: np.broadcast_to(x, (2, 2, 3, 4)),
    ),
    "permute_dims": (
        lambda x: movement.permute_dims(x, (2, -3, 1)),
        lambda x: x.transpose(2, 0, 1),
    ),
    "matrix_transpose": (movement.matrix_transpose, np.matrix_transpose),
    "moveaxis": (
        lambda x: movement.moveaxis(x, (0, 1), (-1, 0)),
        lambda x: np.moveaxis(x, (0, 1), (-1, 0)),
    ),
    "swapaxes": (lambda x: movement.swapaxes(x, 0, -1), lambda x: x.swapaxes(0, -1)),
    "expand_dims": (lambda x: movement.expand_dims(x, axis=-1), lambda x: x[..., None]),
    "expand_dims_several": (
        lambda x: movement.expand_dims(x, axis=(0, 2)),
        lambda x: np.expand_dims(x, (0, 2)),
    ),
    "squeeze": (lambda x: movement.squeeze(x[:, :1], axis=1), lambda x: x[:, 0]),
    "flip": (movement.flip, np.flip),
    "flip_axes": (lambda x: movement.flip(x, axis=(0, -1)), lambda x: np.flip(x, (0, -1))),
    "roll_flat": (lambda x: movement.roll(x, 5), lambda x: np.roll(x, 5)),
    "roll": (lambda x: movement.roll(x, -2, axis=1), lambda x: np.roll(x, -2, 1)),
    "roll_axes": (
        lambda x: movement.roll(x, (1, 2), axis=(0, 2)),
        lambda x: np.roll(x, (1, 2), (0, 2)),
    ),
    "broadcast_arrays": (
        lambda x: movement.broadcast_arrays(x, x[:1, :, :1]),
        lambda x: list(np.broadcast_arrays(x, x[:1, :, :1])),
    ),
    "stack": (lambda x: joining.stack([x, -x, x], axis=-2), lambda x: np.stack([x, -x, x], -2)),
    "concat": (
        lambda x: joining.concat([x, x[:, :1]], axis=1),
        lambda x: np.concatenate([x, x[:, :1]], 1),
    ),
    "concat_flat": (
        lambda x: joining.concat([x, x[0]], axis=None),
        lambda x: np.concatenate([x, x[0]], None),
    ),
    "split": (lambda x: joining.split(x, 2, axis=-1), lambda x: np.split(x, 2, -1)),
    "split_at": (lambda x: joining.split(x, [1, 3], axis=2), lambda x: np.split(x, [1, 3], 2)),
    "split_backwards": (
        lambda x: joining.split(x, [3, 1, 9, -1], axis=2),
        lambda x: np.split(x, [3, 1, 9, -1], 2),
    ),
    "unstack": (lambda x: joining.unstack(x, axis=1), lambda x: list(np.unstack(x, axis=1))),
    "tile": (lambda x: padding.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3))),
    "tile_more_axes": (
        lambda x: padding.tile(x, (2, 1, 1, 2)),
        lambda x: np.tile(x, (2, 1, 1, 2)),
    ),
    "tile_none": (lambda x: padding.tile(x, (0, 1)), lambda x: np.tile(x, (0, 1))),
    "repeat": (lambda x: padding.repeat(x, 2, axis=1), lambda x: np.repeat(x, 2, 1)),
    "repeat_flat": (lambda x: padding.repeat(x, 2), lambda x: np.repeat(x, 2)),
    "repeat_each": (
        lambda x: padding.repeat(x, [2, 0, 1], axis=1),
        lambda x: np.repeat(x, [2, 0, 1], 1),
    ),
    "pad": (lambda x: padding.pad(x, 1), lambda x: np.pad(x, 1)),
    "pad_axes": (
        lambda x: padding.pad(x, ((0, 1), (2, 0), (1, 1)), constant_values=3.0),
        lambda x: np.pad(x, ((0, 1), (2, 0), (1, 1)), constant_values=3.0),
    ),
    "pad_corners": (
        lambda x: padding.pad(x, 1, constant_values=((1, 2), (3, 4), (5, 6))),
        lambda x: np.pad(x, 1, constant_values=((1, 2), (3, 4), (5, 6))),
    ),
    "tril": (lambda x: triangles.tril(x, k=-1), lambda x: np.tril(x, -1)),
    "triu": (lambda x: triangles.triu(x, k=1), lambda x: np.triu(x, 1)),
    "diagonal": (
        lambda x: triangles.diagonal(x, offset=1, axis1=0, axis2=2),
        lambda x: np.diagonal(x, 1, 0, 2),
    ),
    "diag": (lambda x: triangles.diag(x[0, 0], k=-1), lambda x: np.diag(x[0, 0], -1)),
    "diag_of": (lambda x: triangles.diag(x[0], k=1), lambda x: np.diag(x[0], 1)),
    "diff": (lambda x: joining.diff(x, n=2), lambda x: np.diff(x, 2)),
    "diff_ends": (
        lambda x: joining.diff(x, axis=0, prepend=x[:1], append=x[1:]),
        lambda x: np.diff(x, axis=0, prepend=x[:1], append=x[1:]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_equals_numpy(name):
    ours, theirs = CASES[name]
    for array in (X, X.astype(np.float32), (X * 4).astype(np.int32), X * 1j):
        same(ours(asarray(array)), theirs(array))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
    ours, _ = CASES[name]

    def function(x):
        found = ours(x * x)
        return [y * y for y in found] if isinstance(found, (list, tuple)) else found * found

    check_gradients(function, X)


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
def test_pad_modes(mode):
    widths = ((1, 0), (2, 4), (0, 3))
    same(padding.pad(asarray(X), widths, mode=mode), np.pad(X, widths, mode=mode))
    check_gradients(lambda x: padding.pad(x * x, widths, mode=mode), X)


def test_pad_by_a_tensor_is_differentiable():
    check_gradients(lambda x, c: padding.pad(x, 1, constant_values=c) ** 2, X[0], np.array(1.5))


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("lengths", [(), (3,), (2, 3), (2, 3, 4), (2, 0)])
def test_meshgrid(indexing, lengths):
    axes = [np.arange(float(n)) for n in lengths]
    found = joining.meshgrid(*map(asarray, axes), indexing=indexing)
    same(found, list(np.meshgrid(*axes, indexing=indexing)))


@pytest.mark.parametrize("offset", range(-4, 6))
@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (0, 3), (3, 0)])
def test_diagonals(shape, offset):
    array = np.arange(float(np.prod(shape))).reshape(shape)
    same(triangles.diagonal(asarray(array), offset=offset), np.diagonal(array, offset))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-6, 6), max_size=4))
def test_split_reads_positions_like_slices(positions):
    array = np.arange(5)
    same(joining.split(asarray(array), positions), np.split(array, positions))


def test_zero_dimensions_and_empty_tensors():
    scalar = asarray(2.0)
    assert movement.permute_dims(scalar, ()).shape == ()
    assert scalar.T.shape == ()
    assert movement.flip(scalar).tolist() == 2.0
    assert movement.squeeze(scalar).shape == ()
    assert movement.roll(scalar, 1).tolist() == 2.0
    assert padding.pad(scalar, 3).tolist() == 2.0
    assert padding.tile(scalar, 3).tolist() == [2.0, 2.0, 2.0]
    assert padding.repeat(scalar, 2).tolist() == [2.0, 2.0]
    assert joining.unstack(asarray(np.zeros((0, 2)))) == ()
    assert movement.flip(asarray(np.zeros((0, 2)))).shape == (0, 2)
    assert asarray(np.zeros((0, 2))).T.shape == (2, 0)


def test_joins_promote_and_scalars_adapt():
    assert joining.concat([asarray([1]), asarray([1.5])]).dtype == np.float64
    half = asarray(np.ones(1, np.float32))
    assert joining.stack([half[0], 2.0]).dtype == np.float32
    assert joining.stack(asarray([[1, 2], [3, 4]]), axis=1).tolist() == [[1, 3], [2, 4]]
    assert asarray([asarray(1.0), asarray(2.0)]).tolist() == [1.0, 2.0]


def test_gradient_of_many_rows_is_one_concat():
    x = asarray(np.ones((5, 2)))
    with GradientTape() as tape:
        tape.watch(x)
        total = sum((row * (i + 1.0)).sum() for i, row in enumerate(joining.unstack(x)))
    assert tape.gradient(total, x).tolist() == [[i + 1.0] * 2 for i in range(5)]


ERRORS = [
    (lambda x: movement.permute_dims(x, (0, 1)), ShapeError, "each of the 3 axes once"),
    (lambda x: movement.permute_dims(x, (0, 1, 1)), ShapeError, "each of the 3 axes once"),
    (lambda x: movement.matrix_transpose(x[0, 0]), ShapeError, "fewer than 2 axes"),
    (lambda x: movement.moveaxis(x, (0, 1), 0), ShapeError, "2 sources and 1 destinations"),
    (lambda x: movement.expand_dims(x, axis=5), IndexError, "axis 5 is out of range"),
    (lambda x: movement.squeeze(x, axis=1), ShapeError, "has length 3, not 1"),
    (lambda x: movement.roll(x, (1, 2), axis=0), ShapeError, "2 shifts for 1 axes"),
    (lambda x: movement.reshape(x, (5, -1)), ShapeError, "cannot divide"),
    (lambda x: movement.broadcast_to(x, (4,)), ShapeError, "smaller"),
    (lambda x: joining.stack([x, x[0]]), ShapeError, r"part 1 \(3, 4\)"),
    (lambda x: joining.stack([]), ValueError, "nothing to join"),
    (lambda x: joining.concat([x, x[0]]), ShapeError, r"part 1 \(3, 4\)"),
    (lambda x: joining.concat([x, x[:1, :2]]), ShapeError, "Only axis 0 may differ"),
    (lambda x: joining.concat([x[0, 0, 0]]), ShapeError, "Use gt.stack"),
    (lambda x: joining.split(x, 2, axis=1), ShapeError, "does not divide into 2 equal parts"),
    (lambda x: joining.meshgrid(x), ShapeError, "not 1-d"),
    (lambda x: joining.meshgrid(x[0, 0], indexing="yx"), ValueError, "'yx'"),
    (lambda x: padding.repeat(x, [1, 2], axis=1), ShapeError, "2 repeats for axis 1 of length 3"),
    (lambda x: padding.repeat(x, 1.5), TypeError, "not an integer"),
    (lambda x: padding.tile(x, -1), ValueError, "negative"),
    (lambda x: padding.pad(x, -1), ValueError, "negative width"),
    (lambda x: padding.pad(x, ((1, 2), (1, 2))), ShapeError, "a pair for each of 3 axes"),
    (lambda x: padding.pad(x, 1, mode="mean"), ValueError, "'mean'"),
    (lambda x: padding.pad(x[:0], 1, mode="edge"), ShapeError, "nothing to copy"),
    (lambda x: triangles.tril(x[0, 0]), ShapeError, "fewer than 2 axes"),
    (lambda x: triangles.diagonal(x, axis1=0, axis2=0), ShapeError, "names an axis twice"),
    (lambda x: triangles.diag(x), ShapeError, "neither a vector nor a matrix"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors_say_what_is_wrong(call, error, message):
    with pytest.raises(error, match=message):
        call(asarray(X))


VIEWS = ["reshape", "permute_dims", "broadcast_to", "expand_dims", "flip", "swapaxes", "diagonal"]
COPIES = ["stack", "concat", "tile", "repeat", "pad", "tril", "roll", "diag", "diag_of"]


@pytest.mark.parametrize("name", VIEWS)
def test_views_refuse_in_place_writes(name):
    view = CASES[name][0](asarray(X))
    with pytest.raises(InPlaceError):
        view += 1.0
    with pytest.raises(InPlaceError):
        view[0] = 1.0


@pytest.mark.parametrize("name", COPIES)
def test_copies_accept_in_place_writes(name):
    found = CASES[name][0](asarray(X))
    assert type(found) is Tensor
    before = found.numpy()
    found += 1.0
    np.testing.assert_array_equal(found.numpy(), before + 1.0)
