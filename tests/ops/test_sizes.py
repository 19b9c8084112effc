"""Shapes with more bytes than can be addressed: an error that names them, never a wrapped number.

Products and sums of lengths that wrap around give small numbers, and native code that believes
them reads and writes beyond its memory.
"""

import numpy as np
import pytest

import gradtape as gt

HUGE = [2**60, 2**62, 2**63 - 1, 2**63, 2**64 + 1, 2**80]


def wide(n=2**40):
    """A tensor of many elements that share one place in memory."""
    return gt.broadcast_to(gt.asarray([1.0]), (n,))


# By the name that the error begins with.
ENLARGING = {
    "repeat": lambda n: gt.repeat(gt.ones(8), n),
    "repeat each": lambda n: gt.repeat(gt.ones(8), [n] * 8),
    "repeat of bytes": lambda n: gt.repeat(gt.ones(16, dtype="int8"), [n] * 16),
    "repeat one": lambda n: gt.repeat(gt.ones((8, 2)), [1, n, 1, 1, 1, 1, 1, 1], axis=0),
    "tile": lambda n: gt.tile(gt.ones(8), n),
    "tile both": lambda n: gt.tile(gt.ones(8), (n, n)),
    "pad": lambda n: gt.pad(gt.ones(4), n),
    "pad edge": lambda n: gt.pad(gt.ones(4), n, mode="edge"),
    "pad wrap": lambda n: gt.pad(gt.ones(4), (n, 1), mode="wrap"),
    "pad with ones": lambda n: gt.pad(gt.ones(4), n, constant_values=1.0),
    "pad with both": lambda n: gt.pad(gt.ones(4), n, constant_values=(1.0, 2.0)),
    "broadcast_to": lambda n: gt.broadcast_to(gt.ones(1), (n, 2)),
    "full": lambda n: gt.zeros((n, 2)),
    "broadcast_to of a number": lambda n: gt.full((2 * n,), 3.0),
    "full with no elements": lambda n: gt.zeros((n, 0, n)),
    "eye": lambda n: gt.eye(n),
    "eye of columns": lambda n: gt.eye(4, n),
    "arange": lambda n: gt.arange(n),
    "arange of floats": lambda n: gt.arange(0.0, float(n), 0.5),
    "linspace": lambda n: gt.linspace(0.0, 1.0, n),
    "one_hot": lambda n: gt.one_hot(gt.asarray([0, 1]), n),
    "standard_normal": lambda n: gt.random.normal((n,)),
}


@pytest.mark.parametrize("n", HUGE)
@pytest.mark.parametrize("name", ENLARGING)
def test_counts_and_lengths_of_the_user(name, n):
    with pytest.raises(gt.errors.SizeError, match=f"^{name.split()[0]}: shape .* bytes, more than"):
        ENLARGING[name](n)


COMBINING = {
    "multiply": lambda: wide()[:, None] * wide(),
    "multiply, outer": lambda: gt.outer(wide(), wide()),
    "multiply, kron": lambda: gt.kron(wide(), wide()),
    "broadcast_to, meshgrid": lambda: gt.meshgrid(wide(2**30), wide(2**30), wide(2**30)),
    "stack": lambda: gt.stack([wide(2**59)] * 4),
    "concat": lambda: gt.concat([wide(2**59)] * 4),
    "tile, vmap": lambda: gt.vmap(lambda x: gt.tile(x, 2**60))(gt.ones((4, 2))),
    "arange, loop": lambda: gt.fori_loop(0, 2**80, lambda i, x: x + 1.0, gt.asarray(0.0)),
}


@pytest.mark.parametrize("name", COMBINING)
def test_lengths_of_several_tensors(name):
    with pytest.raises(gt.errors.SizeError, match=f"^{name.split(',')[0]}: shape "):
        COMBINING[name]()


def test_numpy_integers_do_not_wrap():
    with pytest.raises(gt.errors.SizeError):
        gt.zeros((np.int64(2**40), np.int64(2**40)))
    assert type(gt.zeros((np.int64(2), np.int32(3))).shape[0]) is int


def test_what_fits_stays():
    assert gt.zeros((2**40, 0)).size == 0
    assert gt.tile(gt.ones(0), (2**40, 2**40)).shape == (2**40, 0)
    assert wide(2**60 - 1).size == 2**60 - 1
    assert gt.repeat(gt.asarray([1, 2]), np.array([1, 2], dtype="uint64")).tolist() == [1, 2, 2]
    assert gt.diff(gt.arange(4.0), n=2**80).shape == (0,)
    assert gt.diff(gt.arange(4.0), n=3).tolist() == [0.0]
    matrix = gt.ones((2, 2))
    for k in (2**80, -(2**80)):
        assert gt.tril(matrix, k=k).tolist() == np.tril(np.ones((2, 2)), np.sign(k) * 5).tolist()
        assert gt.triu(matrix, k=k).tolist() == np.triu(np.ones((2, 2)), np.sign(k) * 5).tolist()
