"""Row-sparse gradients: the same as dense ones, or rows only."""

import numpy as np
import pytest

import gradtape as gt
from gradtape import optimizers

RNG = np.random.default_rng(1)
TABLE = RNG.normal(size=(6, 3))
LOOKUPS = [[1, 4, 1], [0, 1, 1], [5, 5, 5], [4, 0, 2]]
FACTORS = RNG.normal(size=(3, 3))

EXACT = {
    "sgd": lambda **more: optimizers.SGD(0.1, **more),
    "momentum": lambda **more: optimizers.SGD(0.1, momentum=0.9, nesterov=True, **more),
    "adam": lambda **more: optimizers.Adam(0.1, **more),
    "amsgrad": lambda **more: optimizers.Adam(0.1, amsgrad=True, **more),
    "adamw": lambda **more: optimizers.AdamW(0.1, 0.3, **more),
    "rmsprop": lambda **more: optimizers.RMSprop(0.1, centered=True, momentum=0.5, **more),
    "adagrad": lambda **more: optimizers.Adagrad(0.1, **more),
}
CLIPPING = [{}, {"clipnorm": 0.5}, {"clipvalue": 0.3}, {"global_clipnorm": 0.5}]


def train(optimizer, dense, lookups=LOOKUPS):
    table, other = gt.Variable(TABLE), gt.Variable([0.5])
    for rows in lookups:
        with gt.GradientTape() as tape:
            y = gt.tanh(gt.take(table, gt.asarray(rows), axis=0) * FACTORS)
            loss = gt.sum(y) * other[0]
        g, h = tape.gradient(loss, [table, other])
        assert isinstance(g, gt.RowSparse)
        optimizer.apply_gradients([(g.dense() if dense else g, table), (h, other)])
    return table.numpy(), other.numpy()


@pytest.mark.parametrize("clipping", CLIPPING, ids=lambda c: next(iter(c), "unclipped"))
@pytest.mark.parametrize("kind", EXACT)
def test_sparse_equals_dense(kind, clipping):
    sparse = train(EXACT[kind](**clipping), dense=False)
    for one, other in zip(sparse, train(EXACT[kind](**clipping), dense=True), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", ["sgd", "adagrad"])
def test_rows_suffice_where_a_gradient_of_zero_changes_nothing(kind):
    assert EXACT[kind]().rows_suffice
    after, _ = train(EXACT[kind](), dense=False, lookups=[[1, 4, 1]] * 3)
    untouched = [0, 2, 3, 5]
    np.testing.assert_array_equal(after[untouched], TABLE[untouched])
    assert (after[[1, 4]] != TABLE[[1, 4]]).all()


@pytest.mark.parametrize("kind", ["momentum", "adam", "rmsprop"])
def test_moments_of_all_rows_decay_unless_lazy(kind):
    lookups = [[0, 1, 2], [1, 1, 1]]
    start, _ = train(EXACT[kind](), False, lookups[:1])
    eager, _ = train(EXACT[kind](), False, lookups)
    lazy, _ = train(EXACT[kind](lazy=True), False, lookups)
    assert (np.abs(eager[0] - start[0]) > 1e-6).all()
    others = [0, 2, 3, 4, 5]
    np.testing.assert_allclose(lazy[others], start[others], rtol=1e-14)
    np.testing.assert_allclose(lazy[1], eager[1], rtol=1e-12)


def test_lazy_moments():
    optimizer = optimizers.Adam(0.1, beta_1=0.5, beta_2=0.5, lazy=True)
    train(optimizer, False, [[0, 1, 2]])
    before = optimizer.state_dict()["momentum.0"]
    w = gt.Variable(TABLE)
    fresh = optimizers.Adam(0.1, beta_1=0.5, beta_2=0.5, lazy=True)
    for rows in ([0, 1, 2], [1, 1, 1]):
        with gt.GradientTape() as tape:
            loss = gt.sum(gt.take(w, gt.asarray(rows), axis=0))
        fresh.apply_gradients([(tape.gradient(loss, w), w)])
    momentum = fresh.state_dict()["momentum.0"]
    assert before.shape == momentum.shape
    # Ones in the first step; in the second three ones for one row, and the others wait.
    expected = np.array([0.5, 0.25 + 1.5, 0.5, 0, 0, 0])
    np.testing.assert_allclose(momentum, np.repeat(expected[:, None], 3, axis=1))


def test_tables_of_vectors_and_of_blocks():
    for shape in [(4,), (4, 2, 2)]:
        start = np.ones(shape)
        for make in (lambda: optimizers.Adagrad(0.1), lambda: optimizers.Adam(0.1, lazy=True)):
            results = []
            for rows in (np.array([2, 2]), None):
                w = gt.Variable(start)
                with gt.GradientTape() as tape:
                    looked_up = w[2] * 2.0 if rows is None else gt.take(w, rows, axis=0)
                    loss = gt.sum(looked_up)
                make().apply_gradients([(tape.gradient(loss, w), w)])
                results.append(w.numpy()[2])
            np.testing.assert_allclose(results[0], results[1], rtol=1e-12)


def test_cast_to_the_dtype_of_the_variable():
    w = gt.Variable(np.ones((3, 2), "float32"))
    with gt.GradientTape() as tape:
        loss = gt.sum(gt.take(w, gt.asarray([1]), axis=0))
    g = tape.gradient(loss, w)
    wide = gt.RowSparse(g.indices, gt.cast(g.values, "float64"), gt.asarray(np.ones((3, 2))).spec)
    optimizers.Adagrad(1.0).apply_gradients([(wide, w)])
    assert w.dtype == np.float32
    assert w.numpy()[0].tolist() == [1.0, 1.0]
