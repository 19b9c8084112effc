"""What happens to gradients before they are applied: pairs, None, clipping, errors."""

import warnings

import numpy as np
import pytest

import gradtape as gt
from gradtape.optimizers import SGD, Adam

G = [np.array([3.0, 4.0]), np.array([[0.6], [0.8]])]


def moved(**options):
    """The steps of plain descent with a learning rate of 1: the gradients as they are applied."""
    variables = [gt.Variable(np.zeros(g.shape)) for g in G]
    SGD(1.0, **options).apply_gradients(zip(G, variables, strict=True))
    return [-v.numpy() for v in variables]


def test_clipnorm_is_per_variable():
    first, second = moved(clipnorm=2.0)
    np.testing.assert_allclose(first, G[0] * 2.0 / 5.0)
    np.testing.assert_array_equal(second, G[1])


def test_global_clipnorm_is_of_all():
    length = np.sqrt(26.0)
    for got, g in zip(moved(global_clipnorm=2.0), G, strict=True):
        np.testing.assert_allclose(got, g * 2.0 / length)
    for got, g in zip(moved(global_clipnorm=6.0), G, strict=True):
        np.testing.assert_array_equal(got, g)


def test_clipvalue():
    for got, g in zip(moved(clipvalue=0.7), G, strict=True):
        np.testing.assert_array_equal(got, np.clip(g, -0.7, 0.7))


def test_gradients_of_zero_are_not_divided_by_their_length():
    w = gt.Variable([1.0, 2.0])
    SGD(1.0, clipnorm=1.0).apply_gradients([([0.0, 0.0], w)])
    SGD(1.0, global_clipnorm=1.0).apply_gradients([([0.0, 0.0], w)])
    assert w.numpy().tolist() == [1.0, 2.0]


def test_clipping_of_several_dtypes():
    a, b = gt.Variable(np.zeros(1, "float32")), gt.Variable(np.zeros(1))
    SGD(1.0, global_clipnorm=1.0).apply_gradients([([3.0], a), ([4.0], b)])
    assert (a.dtype, b.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose([a.numpy()[0], b.numpy()[0]], [-0.6, -0.8], rtol=1e-6)


def test_wrong_clipping():
    with pytest.raises(ValueError, match="clipnorm and clipvalue exclude each other"):
        SGD(clipnorm=1.0, clipvalue=1.0)
    with pytest.raises(ValueError, match="clipvalue=0"):
        SGD(clipvalue=0.0)


def test_pairs_in_any_form():
    for make in (zip, lambda g, v: list(zip(g, v, strict=True)), lambda g, v: [[g[0], v[0]]]):
        w = gt.Variable(1.0)
        SGD(0.5).apply_gradients(make([1.0], [w]))
        assert float(w) == 0.5
    w = gt.Variable(1.0)
    SGD(0.5).apply([1.0], [w])
    assert float(w) == 0.5


def test_gradients_of_none_are_left_out_with_one_warning():
    a, b, c = (gt.Variable(1.0, name=name) for name in ("first", "second", "third"))
    optimizer = SGD(0.5)
    with pytest.warns(UserWarning, match="second, third: they were left unchanged") as caught:
        optimizer.apply_gradients([(1.0, a), (None, b), (None, c)])
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.apply_gradients([(1.0, a), (None, b), (None, c)])
    assert [float(a), float(b), float(c)] == [0.0, 1.0, 1.0]


def test_no_gradient_at_all_is_an_error():
    a, b = gt.Variable(1.0, name="first"), gt.Variable(1.0, name="second")
    optimizer = SGD()
    with pytest.raises(ValueError, match="no gradient for any variable: first, second"):
        optimizer.apply_gradients([(None, a), (None, b)])
    with pytest.raises(ValueError, match="there are no gradients"):
        optimizer.apply_gradients([])
    assert int(optimizer.iterations) == 0


def test_errors_name_the_variable():
    w, n = gt.Variable([1.0, 2.0], name="weights"), gt.Variable([1], name="count")
    with pytest.raises(ValueError, match=r"gradient of weights has shape \(3,\).*\(2,\)"):
        SGD().apply_gradients([([1.0, 2.0, 3.0], w)])
    with pytest.raises(TypeError, match="count of dtype int64"):
        SGD().apply_gradients([([1], n)])
    with pytest.raises(TypeError, match="got Tensor"):
        SGD().apply_gradients([(1.0, gt.asarray(1.0))])
    with pytest.raises(ValueError, match="weights is listed twice"):
        SGD().apply_gradients([([1.0, 1.0], w), ([1.0, 1.0], w)])
    with pytest.raises(TypeError, match="pairs"):
        SGD().apply_gradients([w])
    with pytest.raises(ValueError, match="2 gradients for 1 variables"):
        SGD().apply([1.0, 2.0], [w])


def test_wrong_arguments():
    with pytest.raises(ValueError, match=r"momentum=1\.5"):
        SGD(momentum=1.5)
    with pytest.raises(ValueError, match=r"beta_2=1\.0"):
        Adam(beta_2=1.0)


class TestMinimize:
    def test_with_a_function(self):
        w = gt.Variable(2.0)
        loss = SGD(0.25).minimize(lambda: w * w, [w])
        assert (float(loss), float(w)) == (4.0, 1.0)

    def test_with_a_tape(self):
        w = gt.Variable(2.0)
        with gt.GradientTape() as tape:
            loss = w * w
        SGD(0.25).minimize(loss, [w], tape=tape)
        assert float(w) == 1.0

    def test_with_a_function_and_a_tape(self):
        w = gt.Variable(2.0, trainable=False)
        tape = gt.GradientTape()

        def loss():
            tape.watch(w)
            return w * w

        SGD(0.25).minimize(loss, [w], tape=tape)
        assert float(w) == 1.0

    def test_with_variables_that_the_loss_makes(self):
        model = gt.nn.Dense(1, kernel_initializer="ones")
        SGD(0.5).minimize(lambda: gt.sum(model(np.ones((1, 1)))), model.parameters)
        assert float(model.kernel[0, 0]) == 0.5

    def test_a_tensor_needs_a_tape(self):
        with pytest.raises(ValueError, match="tape="):
            SGD().minimize(gt.asarray(1.0), [gt.Variable(1.0)])
