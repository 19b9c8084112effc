"""Every way to call the functions that give derivatives, wrong ones included."""

import numpy as np
import pytest
from scipy import sparse

import gradtape as gt
from gradtape.errors import DtypeError, NoValueError, ShapeError, SparsityError

X = np.array([1.0, 2.0, 3.0])


def product(x, y):
    return x * y


@pytest.mark.parametrize("derivative", [gt.jacobian, gt.jacfwd, gt.jacrev])
def test_argnums_of_every_kind(derivative):
    by_second = np.diag(X)
    for number in (1, -1, np.int64(1)):
        assert np.array_equal(derivative(product, number)(X, 2 * X), by_second)
    for numbers in ((0, 1), [0, 1], (np.int32(0), -1), range(2)):
        found = derivative(product, numbers)(X, 2 * X)
        assert isinstance(found, tuple)
        assert np.array_equal(found[0], 2 * by_second)
        assert np.array_equal(found[1], by_second)


@pytest.mark.parametrize("derivative", [gt.grad, gt.value_and_grad, gt.jacobian, gt.hessian])
def test_argnums_that_are_none(derivative):
    for wrong in ("x", 1.0, (0, "x"), None):
        with pytest.raises(TypeError, match=r"argnums=.*Use an int such as 0, or a tuple"):
            derivative(lambda x: gt.sum(x), wrong)
    with pytest.raises(ValueError, match="argnums 2 with 1 positional arguments"):
        derivative(lambda x: gt.sum(x), 2)(X)


def test_an_argument_chosen_twice_is_one_source():
    first, again = gt.jacobian(product, (0, -2))(X, X)
    assert np.array_equal(first, np.diag(X))
    assert np.array_equal(again, np.diag(X))
    found = gt.grad(lambda x: gt.sum(x**2), (0, 0))(X)
    assert [one.tolist() for one in found] == [[2.0, 4.0, 6.0]] * 2
    blocks = gt.hessian(lambda x: gt.sum(x**3), (0, 0))(X)
    assert all(np.array_equal(block, np.diag(6 * X)) for row in blocks for block in row)


def test_prepared_matrices_are_by_one_argument():
    assert np.array_equal(gt.prepare_jacobian(product, X, X, argnums=np.int64(1))(X, X), np.diag(X))
    with pytest.raises(TypeError, match="by one argument"):
        gt.prepare_jacobian(product, X, X, argnums=(0, 1))


def test_chunks_in_either_mode():
    data = np.linspace(0.1, 1.0, 7)
    expected = np.diag(np.cos(data))
    for derivative in (gt.jacfwd, gt.jacrev):
        for limits in ({"chunk_size": 3}, {"memory_budget": "1K"}):
            np.testing.assert_allclose(derivative(gt.sin, **limits)(data), expected)
        with pytest.raises(ValueError, match="chunk_size=0"):
            derivative(gt.sin, chunk_size=0)(data)


def test_jvp_takes_the_only_argument_as_it_is():
    for primal, tangent in ((X, X), (gt.asarray(X), gt.asarray(X)), (gt.Variable(X), X)):
        value, along = gt.jvp(lambda x: x * x, primal, tangent)
        assert value.tolist() == [1.0, 4.0, 9.0]
        assert along.tolist() == [2.0, 8.0, 18.0]
    assert float(gt.jvp(lambda x: x * x, 3.0, 1.0)[1]) == 6.0
    nest = gt.jvp(lambda p: p["a"] * p["b"], {"a": 2.0, "b": 3.0}, {"a": 1.0, "b": 10.0})
    assert float(nest[1]) == 23.0
    with pytest.raises(TypeError, match="tangents of type ndarray for a tuple of 1 primals"):
        gt.jvp(lambda x: x * x, (X,), X)


def test_a_tangent_that_is_none_is_zero():
    _, along = gt.jvp(product, (X, 2 * X), (None, np.ones(3)))
    assert along.tolist() == X.tolist()
    _, push = gt.linearize(product, X, 2 * X)
    assert push(None, None).tolist() == [0.0, 0.0, 0.0]
    x, y = gt.asarray(X), gt.asarray(2 * X)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        z = x * y
        total = gt.sum(x * x * y)
    assert tape.jvp(z, [x, y], [None, 1.0]).tolist() == X.tolist()
    by_x, by_y = tape.hvp(total, [x, y], [None, 1.0])
    assert by_x.tolist() == (2 * X).tolist()
    assert by_y.tolist() == [0.0, 0.0, 0.0]
    with gt.ForwardAccumulator([x, y], [1.0, None]) as accumulator:
        z = x * y
    assert accumulator.jvp(z).tolist() == (2 * X).tolist()


def test_directions_have_the_keys_of_the_primals():
    def f(p):
        return p["a"] * p["b"]

    at = {"a": 2.0, "b": 3.0}
    for wrong in ({"a": 1.0}, {"a": 1.0, "b": 1.0, "c": 1.0}):
        with pytest.raises(ValueError, match=r"tangents: expected 2 parts with keys .*got keys"):
            gt.jvp(f, (at,), (wrong,))


def test_second_derivatives_of_complex_values():
    """Nothing real is a gradient of a complex value: it would lose the imaginary part."""

    def f(x):
        return gt.sum((1 + 2j) * x**2)

    for ask in (
        lambda: gt.hessian(f)(X),
        lambda: gt.hessian(f, sparse=True)(X),
        lambda: gt.hvp(f, X, X),
        lambda: gt.vhp(f, X, X),
    ):
        with pytest.raises(DtypeError, match=r"complex128 has no gradient by a real.*gt\.imag"):
            ask()
    found = gt.hessian(f)(X + 1j).numpy()
    np.testing.assert_allclose(found, (2 + 4j) * np.eye(3))


def test_what_sparse_may_be():
    expected = np.diag(2 * X)
    for yes in (True, np.True_, np.eye(3), np.eye(3).tolist(), sparse.eye_array(3, format="dia")):
        found = gt.jacobian(lambda x: x * x, sparse=yes)(X)
        assert found.format == "csr"
        assert np.array_equal(found.toarray(), expected)
    assert np.array_equal(gt.jacobian(lambda x: x * x, sparse=np.False_)(X), expected)
    for wrong in (None, 1, 1.5, object(), "yes"):
        for ask in (
            lambda sparse: gt.jacobian(lambda x: x * x, sparse=sparse)(X),
            lambda sparse: gt.hessian(lambda x: gt.sum(x), sparse=sparse)(X),
            lambda sparse: gt.prepare_jacobian(lambda x: x * x, X, sparse=sparse),
            lambda sparse: gt.residuals(lambda x: x * x, sparse=sparse),
            lambda sparse: gt.root(lambda x: x * x - 4.0, X, sparse=sparse),
        ):
            with pytest.raises(ValueError, match=r"sparse=.* is unknown\. Use True, False"):
                ask(wrong)
    for wrong in (np.ones(3), np.ones((3, 3, 1)), np.full((3, 3), "x"), [[True, False], [True]]):
        with pytest.raises(ValueError, match=r"pattern|inhomogeneous"):
            gt.jacobian(lambda x: x * x, sparse=wrong)(X)


@pytest.mark.parametrize("given", [np.zeros((3, 3)), sparse.csr_array((3, 3))])
def test_a_given_pattern_without_entries(given):
    for ask in (
        lambda: gt.jacobian(lambda x: x * x, sparse=given)(X),
        lambda: gt.hessian(lambda x: gt.sum(x**3), sparse=given)(X),
        lambda: gt.prepare_jacobian(lambda x: x * x, X, sparse=given),
        lambda: gt.prepare_hessian(lambda x: gt.sum(x**3), X, sparse=given),
    ):
        with pytest.raises(SparsityError, match="too few entries: 3 rows, the first of them row 0"):
            ask()
    # It fits what has no derivative.
    assert gt.jacobian(gt.floor, sparse=given)(X).nnz == 0
    assert gt.hessian(gt.sum, sparse=given)(X).nnz == 0


def test_pattern_of_a_hessian_inside_another_derivative():
    seen = []

    def f(x):
        seen.append(gt.hessian_pattern(lambda y: gt.sum(y[1:] * y[:-1]), x * 2.0).nnz)
        return gt.sum(x)

    gt.grad(f)(X)
    assert seen == [4]


class TestVmap:
    def test_axes_may_be_numpy_integers(self):
        data = np.arange(6.0).reshape(2, 3)
        found = gt.vmap(gt.sum, in_axes=np.int64(1))(data)
        assert found.tolist() == [3.0, 5.0, 7.0]
        found = gt.vmap(lambda x: x, in_axes=(np.int32(-1),), out_axes=np.int64(1))(data)
        assert np.array_equal(found, data)

    def test_shared_arrays_are_indexed_by_examples(self):
        table = np.arange(6.0).reshape(3, 2)
        rows = gt.vmap(lambda table, i: table[i], in_axes=(None, 0))(table, np.array([2, 0]))
        assert rows.tolist() == [[4.0, 5.0], [0.0, 1.0]]
        nested = gt.vmap(lambda p: p["t"][p["i"]], in_axes=({"t": None, "i": 0},))
        assert nested({"t": table, "i": np.array([1])}).tolist() == [[2.0, 3.0]]
        with pytest.raises(NoValueError, match=r"index a NumPy array.*gt\.asarray\(array\)\[i\]"):
            gt.vmap(lambda i: table[i])(np.array([2, 0]))

    def test_axis_size(self):
        assert gt.vmap(lambda: 2.0, axis_size=3)().tolist() == [2.0] * 3
        assert gt.vmap(gt.sum, in_axes=None, axis_size=2)(X).tolist() == [6.0] * 2
        assert gt.vmap(gt.sin, axis_size=3)(X).shape == (3,)
        with pytest.raises(ShapeError, match=r"argument 0.*has 3.*axis_size is 4"):
            gt.vmap(gt.sin, axis_size=4)(X)
        with pytest.raises(ValueError, match="axis_size=-1 is not a whole number of at least 0"):
            gt.vmap(gt.sin, axis_size=-1)

    def test_axis_size_of_draws(self):
        def draw():
            return gt.random.uniform((2,))

        gt.random.seed(7)
        expected = np.stack([draw().numpy() for _ in range(5)])
        for chunk_size in (None, 2):
            gt.random.seed(7)
            found = gt.vmap(draw, axis_size=5, chunk_size=chunk_size)()
            assert np.array_equal(found, expected)
        assert gt.vmap(draw, axis_size=0)().shape == (0, 2)

    def test_wrong_sizes(self):
        for wrong in (1.5, "2"):
            with pytest.raises(TypeError, match=r"chunk_size=.*a whole number of at least 1"):
                gt.vmap(gt.sin, chunk_size=wrong)
        with pytest.raises(ValueError, match=r"no argument\. Pass axis_size"):
            gt.vmap(lambda: 1.0)()

    def test_remedies_fit_what_was_called(self):
        with pytest.raises(ShapeError, match=r"keyword argument y is 0-d.*functools\.partial"):
            gt.vmap(lambda x, y: x * y)(X, y=2.0)
        with pytest.raises(ShapeError, match=r"Make an array of a list of numbers"):
            gt.vmap(lambda x: x)([1.0, 2.0])
        with pytest.raises(ShapeError, match=r"vectorized_map: .*axis of length 1"):
            gt.vectorized_map(lambda p: p[0] * p[1], (X, 2.0))
        with pytest.raises(ShapeError, match=r"vectorized_map: .*length 1 for what all examples"):
            gt.vectorized_map(lambda p: p[0] * p[1], (X, np.ones(2)))

    def test_sparse_derivatives_are_numbers(self):
        data = np.ones((2, 3))
        with pytest.raises(
            NoValueError, match=r"sparse derivative is made of numbers.*sparse=False"
        ):
            gt.vmap(gt.jacobian(lambda x: x * x, sparse=True))(data)
        found = gt.vmap(gt.jacobian(lambda x: x * x, sparse="auto"))(data)
        assert np.array_equal(found, np.stack([2 * np.eye(3)] * 2))


def test_limits_of_every_kind():
    x = gt.asarray(X)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    for limits in ({"chunk_size": np.int64(2)}, {"memory_budget": 1e3}, {"memory_budget": "1K"}):
        assert np.array_equal(tape.jacobian(y, x, **limits), np.diag(2 * X))
    with pytest.raises(TypeError, match=r"memory_budget=\[1\] is not a number of bytes"):
        tape.jacobian(y, x, memory_budget=[1])


def test_one_tensor_where_one_is_asked_for():
    x = gt.asarray(X)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    for ask in (
        lambda: tape.batch_jacobian([y, y], x),
        lambda: tape.batch_jacobian(y, [x, x]),
        lambda: tape.hessian([y], x),
        lambda: tape.hvp({"y": y}, x, 1.0),
    ):
        with pytest.raises(ValueError, match="expected one tensor or Variable, got"):
            ask()
    with pytest.raises(ValueError, match=r"source: expected a tensor.*got ndarray.*gt\.asarray"):
        tape.jacobian(y, X)
