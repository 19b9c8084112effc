"""Batches: every example once in an epoch, in an order that a position restores."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import gradtape as gt
from gradtape.training.read_ahead import ReadAhead


@settings(max_examples=40, deadline=None)
@given(
    length=st.integers(1, 50), size=st.integers(1, 60),
    shuffle=st.one_of(st.none(), st.integers(0, 9)), drop=st.booleans(),
)  # fmt: skip
def test_every_example_once(length, size, shuffle, drop):
    x = np.arange(length)
    batches = gt.training.Batches({"x": x, "y": -x}, size, shuffle, drop_last=drop)
    found = list(batches)
    assert len(found) == len(batches)
    rows = np.concatenate([batch["x"] for batch in found]) if found else np.array([], int)
    assert all(np.array_equal(batch["x"], -batch["y"]) for batch in found)
    if drop:
        assert len(set(rows)) == len(rows) == length // size * size
    else:
        assert sorted(rows) == list(range(length))
        if shuffle is None:
            assert rows.tolist() == list(range(length))


def test_epochs_differ_and_seeds_repeat():
    x = np.arange(100)
    one, two = (gt.training.Batches(x, 100, shuffle=gt.random.Generator(5)) for _ in range(2))
    orders = [next(iter([batch.tolist() for batch in one])) for _ in range(3)]
    assert orders == [next(iter([batch.tolist() for batch in two])) for _ in range(3)]
    assert orders[0] != orders[1] != orders[2]


@pytest.mark.parametrize("taken", [0, 3, 10, 14])
def test_position_is_saved(tmp_path, taken):
    x = np.arange(40)
    batches = gt.training.Batches(x, 4, shuffle=1)

    def forever(source):
        while True:
            yield from source

    stream = forever(batches)
    for _ in range(taken):
        next(stream)
    gt.save(batches, tmp_path / "b.npz")
    wanted = [next(stream).tolist() for _ in range(25)]
    other = gt.training.Batches(x, 4, shuffle=2)
    gt.load(tmp_path / "b.npz", into=other)
    again = forever(other)
    assert [next(again).tolist() for _ in range(25)] == wanted


def test_other_data_are_refused(tmp_path):
    gt.save(gt.training.Batches(np.arange(40), 4), tmp_path / "b.npz")
    with pytest.raises(gt.errors.StorageError, match="batch_size=4 there and 5 here"):
        gt.load(tmp_path / "b.npz", into=gt.training.Batches(np.arange(40), 5))
    with pytest.raises(gt.errors.StorageError):
        gt.load(tmp_path / "b.npz")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [((np.ones(3), np.ones(4)), "lengths"), (3.0, "array with rows"), ([], "one length")],
)
def test_bad_arrays(arrays, words):
    with pytest.raises((TypeError, ValueError), match=words):
        gt.training.Batches(arrays)


def test_read_ahead_is_bounded_and_passes_errors_on():
    made = []

    def source():
        for number in range(10):
            made.append(number)
            yield number
        raise RuntimeError("broken source")

    with ReadAhead(source(), 3) as ahead:
        assert next(ahead) == 0
        ahead._thread.join(0.2)
        assert len(made) <= 5
        assert [next(ahead) for _ in range(9)] == list(range(1, 10))
        with pytest.raises(RuntimeError, match="broken source"):
            next(ahead)


def test_read_ahead_ends_its_thread():
    with ReadAhead(iter(range(1000)), 2) as ahead:
        next(ahead)
    ahead._thread.join(10.0)
    assert not ahead._thread.is_alive()
