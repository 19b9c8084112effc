"""Arrays of integers where NumPy takes them for axes, shapes, shifts and counts."""

import numpy as np
import pytest

import gradtape as gt

X = np.arange(24.0).reshape(2, 3, 4)

CALLS = {
    "transpose": lambda v: np.transpose(v, np.array([2, 0, 1])),
    "moveaxis": lambda v: np.moveaxis(v, np.array([0, 1]), np.array([2, 0])),
    "reshape": lambda v: np.reshape(v, np.array([6, 4])),
    "broadcast_to": lambda v: np.broadcast_to(v, np.array([5, 2, 3, 4])),
    "tile": lambda v: np.tile(v, np.array([2, 1, 1])),
    "roll": lambda v: np.roll(v, np.array([1, 2]), np.array([0, 1])),
    "roll by one": lambda v: np.roll(v, np.array(1), np.array(0)),
    "pad": lambda v: np.pad(v, np.array([[1, 1], [0, 0], [2, 1]])),
    "repeat": lambda v: np.repeat(v, np.array([1, 2]), axis=0),
    "split": lambda v: np.split(v, np.array([1, 2]), axis=1)[1],
    "tensordot": lambda v: np.tensordot(v, X, axes=np.array([[0, 1], [0, 1]])),
    "tensordot of pairs": lambda v: np.tensordot(v, X, axes=(np.array([0, 1]), np.array([0, 1]))),
    "fftn": lambda v: np.fft.fftn(v, s=np.array([2, 3]), axes=np.array([0, 1])),
    "fftshift": lambda v: np.fft.fftshift(v, axes=np.array([0, 1])),
    "method transpose": lambda v: v.transpose(np.array([2, 0, 1])),
    "method reshape": lambda v: v.reshape(np.array([6, 4])),
}


@pytest.mark.parametrize("call", CALLS)
def test_arrays_of_integers_are_taken(call):
    want = CALLS[call](X)
    np.testing.assert_array_equal(CALLS[call](gt.asarray(X)).numpy(), want)


@pytest.mark.parametrize("axes", [np.array([0.0, 1.0, 2.0]), np.array([True, False, True])])
def test_arrays_of_other_things_are_not(axes):
    with pytest.raises(TypeError, match="permute_dims"):
        np.transpose(gt.asarray(X), axes)
