"""Jacobians of random functions: against rows of gradients, differences, and each other.

GRADTAPE_JACOBIAN_FUZZ=n takes n times as many functions, others each time.
"""

import functools
import itertools
import math
import os

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.autodiff.random_functions import KINDS, apply, apply_holomorphic

import gradtape as gt
from gradtape.runtime import tiers

FACTOR = int(os.environ.get("GRADTAPE_JACOBIAN_FUZZ", "1"))


def examples(count):
    return settings(deadline=None, derandomize=FACTOR == 1, max_examples=count * FACTOR)


STEPS = st.lists(
    st.tuples(
        st.integers(0, len(KINDS) - 1), st.integers(0, 35), st.integers(0, 9), st.integers(0, 9)
    ),
    min_size=1,
    max_size=7,
)
SHAPES = st.sampled_from([(2, 3), (3,), (4,), (), (1,), (2, 1, 2), (0,), (3, 0), (1, 4)])


@pytest.fixture(autouse=True)
def reference_tier(monkeypatch, request):
    if "compiled" not in request.node.name:
        monkeypatch.setattr(tiers, "MODE", "off")


def arrays(seed, *shapes, dtype="float64"):
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1.0, 1.0, shape).astype(dtype) for shape in shapes]


def rows_of_gradients(f, x):
    """The Jacobian, one gradient after the other."""
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
    found = np.zeros((y.size, *x.shape), x.dtype)
    for place in range(y.size):
        seed = np.zeros(y.size, y.dtype)
        seed[place] = 1
        row = tape.gradient(y, x, seed.reshape(y.shape), unconnected_gradients="zero")
        found[place] = row.numpy()
    return found.reshape((*y.shape, *x.shape))


def close(found, expected, single=False):
    found = np.asarray(found)
    assert found.shape == expected.shape
    tolerance = 2e-4 if single else 1e-9
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@examples(250)
@given(steps=STEPS, shape=SHAPES, seed=st.integers(0, 1000))
def test_all_ways_agree(steps, shape, seed):
    first, second = arrays(seed, shape, (3,))

    def f(x):
        return apply(steps, x, second)

    expected = rows_of_gradients(f, gt.asarray(first))
    for mode in ("auto", "forward", "reverse"):
        found = gt.jacobian(f, mode=mode)(first)
        assert found.dtype == first.dtype
        close(found, expected)
    rows = math.prod(expected.shape[: expected.ndim - first.ndim])
    flat = expected.reshape(rows, first.size)
    for mode in ("auto", "forward", "reverse"):
        close(gt.jacobian(f, mode=mode, sparse=True)(first).toarray(), flat)
    close(gt.prepare_jacobian(f, first, colouring="bidirectional")(first).toarray(), flat)
    for mode in ("forward", "reverse"):
        close(gt.jacobian(f, mode=mode, chunk_size=2)(first), expected)
    either = gt.jacobian(f, sparse="auto")(first)
    close(
        either.toarray() if hasattr(either, "toarray") else either.numpy().reshape(flat.shape), flat
    )


@pytest.mark.slow
@examples(12)
@given(steps=STEPS, shape=SHAPES, seed=st.integers(0, 1000))
def test_all_ways_agree_compiled(steps, shape, seed):
    first, second = arrays(seed, shape, (3,))
    expected = rows_of_gradients(lambda x: apply(steps, x, second), gt.asarray(first))
    for mode in ("auto", "forward", "reverse"):
        for _ in range(2):
            found = gt.jacobian(lambda x: apply(steps, x, second), mode=mode)(first)
            close(found, expected)


@pytest.mark.slow
@examples(60)
@given(steps=STEPS, shape=SHAPES, seed=st.integers(0, 1000))
def test_single_precision(steps, shape, seed):
    first, second = arrays(seed, shape, (3,), dtype="float32")
    expected = rows_of_gradients(lambda x: apply(steps, x, second), gt.asarray(first))
    for mode in ("auto", "forward", "reverse"):
        found = gt.jacobian(lambda x: apply(steps, x, second), mode=mode)(first)
        assert found.dtype == np.float32
        close(found, expected, single=True)
    sparse = gt.jacobian(lambda x: apply(steps, x, second), sparse=True)(first)
    assert sparse.dtype == np.float32


@examples(60)
@given(steps=STEPS, seed=st.integers(0, 1000))
def test_differences(steps, seed):
    """In a random direction, so that one difference tests all entries."""
    first, second = arrays(seed, (2, 3), (3,))
    direction = np.random.default_rng(seed + 1).normal(size=first.shape)

    def f(x):
        # A kink within the step would be no mistake of ours.
        return apply(
            [step for step in steps if step[0] not in (2, 3, 7, 8)] or steps[:1], x, second
        )

    h = 1e-5
    difference = (f(first + h * direction) - f(first - h * direction)) / (2 * h)
    along = np.tensordot(gt.jacobian(f)(first).numpy(), direction, first.ndim)
    np.testing.assert_allclose(along, np.asarray(difference), rtol=1e-5, atol=1e-7)


@pytest.mark.slow
@examples(60)
@given(steps=STEPS, seed=st.integers(0, 1000))
def test_several_arguments_and_second_derivatives(steps, seed):
    first, second = arrays(seed, (3,), (2,))

    def loss(x, y):
        return gt.sum(gt.sin(apply(steps, x, y)))

    found = gt.hessian(loss, argnums=(0, 1))(first, second)
    sparse = gt.hessian(loss, argnums=(0, 1), sparse=True)(first, second)
    slopes = gt.grad(loss, argnums=(0, 1))
    for row in (0, 1):
        for column in (0, 1):
            by_row = functools.partial(lambda row, *xs: slopes(*xs)[row], row)
            expected = gt.jacobian(by_row, argnums=column)(first, second)
            close(found[row][column], expected.numpy())
            close(sparse[row][column].toarray(), expected.numpy())
    np.testing.assert_allclose(found[0][1].numpy(), found[1][0].numpy().T, rtol=1e-8, atol=1e-9)
    product = gt.hvp(loss, (first, second), (first * 0 + 1, second * 0 + 2))
    both = found[0][0].numpy() @ np.ones(3) + found[0][1].numpy() @ np.full(2, 2.0)
    np.testing.assert_allclose(product[0].numpy(), both, rtol=1e-8, atol=1e-9)


@examples(40)
@given(steps=STEPS, seed=st.integers(0, 1000))
def test_rows_by_vmap(steps, seed):
    first, second = arrays(seed, (2, 2), (3,))

    def f(x):
        return gt.reshape(apply(steps, x, second), (-1,))

    value, pull = gt.vjp(f, first)
    rows = gt.vmap(lambda g: pull(g)[0])(np.eye(value.size)) if value.size else None
    if rows is not None:
        close(gt.jacobian(f)(first), rows.numpy())
    columns = gt.vmap(lambda t: gt.jvp(f, (first,), (t,))[1])(np.eye(4).reshape(4, 2, 2))
    close(gt.jacobian(f)(first), np.moveaxis(columns.numpy().reshape(2, 2, -1), -1, 0))


@examples(30)
@given(steps=STEPS, seed=st.integers(0, 1000))
def test_third_derivatives(steps, seed):
    """A Jacobian inside another one is differentiable, whichever way either went."""
    first, second = arrays(seed, (3,), (2,))

    def f(x):
        return apply(steps, x, second)

    expected = None
    for inner, outer in (("reverse", "reverse"), ("forward", "reverse"), ("auto", "auto")):
        slopes = gt.jacobian(gt.jacobian(f, mode=inner), mode=outer)
        found = gt.jacobian(lambda x: gt.sum(slopes(x), axis=-1))(first).numpy()  # noqa: B023
        expected = found if expected is None else expected
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)


@examples(40)
@given(steps=STEPS, seed=st.integers(0, 1000))
def test_examples(steps, seed):
    """What vmap makes of a function has independent examples; each has its own Jacobian."""
    batch, second = arrays(seed, (3, 4), (3,))
    mapped = gt.vmap(lambda x: apply(steps, x, second))
    with gt.GradientTape(persistent=True) as tape:
        x = gt.asarray(batch)
        tape.watch(x)
        y = mapped(x)
    for mode in ("auto", "forward", "reverse"):
        found = tape.batch_jacobian(y, x, "zero", mode=mode, check=False).numpy()
        for row, one in zip(found, batch, strict=True):
            close(row, gt.jacobian(lambda x: apply(steps, x, second))(one).numpy())


@examples(60)
@given(steps=STEPS, seed=st.integers(0, 1000))
def test_what_is_proved_of_examples_is_true(steps, seed):
    """Functions of a whole batch, most of which mix examples: who is not refused does not."""
    batch, second = arrays(seed, (3, 2), (2,))
    with gt.GradientTape(persistent=True) as tape:
        x = gt.asarray(batch)
        tape.watch(x)
        y = apply(steps, x, second)
    if not y.ndim or y.shape[0] != 3:
        return
    try:
        found = tape.batch_jacobian(y, x, "zero").numpy()
    except gt.errors.MixedExamplesError:
        return
    whole = np.moveaxis(tape.jacobian(y, x, "zero").numpy(), y.ndim, 1)
    for i in range(3):
        close(found[i], whole[i, i])
        for j in range(3):
            assert i == j or not whole[i, j].any()


@pytest.mark.slow
@examples(60)
@given(steps=STEPS, seed=st.integers(0, 1000))
def test_hessians_in_all_ways(steps, seed):
    first, second = arrays(seed, (4,), (3,))

    def loss(x):
        return gt.sum(gt.sin(apply(steps, x, second)))

    expected = gt.jacobian(gt.grad(loss), mode="reverse")(first).numpy()
    np.testing.assert_allclose(expected, expected.T, rtol=1e-8, atol=1e-9)
    for found in (
        gt.hessian(loss)(first),
        gt.jacfwd(gt.grad(loss))(first),
        gt.jacrev(gt.jacfwd(loss))(first),
        gt.hessian(loss, chunk_size=3)(first),
        gt.vmap(lambda v: gt.hvp(loss, first, v))(np.eye(4)),
        gt.vmap(lambda v: gt.vhp(loss, first, v))(np.eye(4)),
        gt.hessian_operator(loss, first) @ np.eye(4),
    ):
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-8, atol=1e-9)
    for colouring in ("star", "acyclic"):
        found = gt.prepare_hessian(loss, first, colouring=colouring)(first).toarray()
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.slow
@examples(80)
@given(steps=STEPS, size=st.integers(1, 4), seed=st.integers(0, 1000))
def test_holomorphic_functions(steps, size, seed):
    real, imaginary = arrays(seed, (size,), (size,))
    z = real + 1j * imaginary

    def f(z):
        return apply_holomorphic(steps, gt.asarray(z))

    h = 1e-6
    steps_aside = [(f(z + h * e) - f(z - h * e)).numpy() / (2 * h) for e in np.eye(size)]
    expected = gt.jacobian(f, mode="forward")(z).numpy()
    np.testing.assert_allclose(expected, np.stack(steps_aside, -1), rtol=1e-5, atol=1e-6)
    turned = [(f(z + 1j * h * e) - f(z - 1j * h * e)).numpy() / (2j * h) for e in np.eye(size)]
    np.testing.assert_allclose(expected, np.stack(turned, -1), rtol=1e-5, atol=1e-6)
    for mode in ("auto", "reverse"):
        close(gt.jacobian(f, mode=mode)(z), expected)
        close(gt.jacobian(f, mode=mode, sparse=True)(z).toarray(), expected)
        close(gt.jacobian(f, mode=mode, chunk_size=2)(z), expected)
    _, push = gt.linearize(f, z)
    close(gt.vmap(push, out_axes=-1)(np.eye(size) + 0j), expected)
    value, pull = gt.vjp(f, z)
    rows = gt.vmap(lambda g: pull(g)[0])(np.eye(value.size) + 0j)
    close(rows, expected.conj())
    close(gt.vmap(gt.jacobian(f))(np.stack([z, z * 0.5]))[0], expected)
    # A real function of it: rows are dL/dRe + i dL/dIm.
    size_of = lambda z: gt.real(f(z) * gt.conj(f(z)))  # noqa: E731
    found = gt.jacobian(size_of)(z).numpy()
    close(found, 2 * f(z).numpy()[:, None] * expected.conj())


@examples(40)
@given(steps=STEPS, shape=SHAPES, seed=st.integers(0, 1000))
def test_differences_of_everything(steps, shape, seed):
    """Element by element, where two steps of different length agree: elsewhere there is a kink."""
    first, second = arrays(seed, shape, (3,))

    def f(x):
        return apply(steps, gt.asarray(x), second).numpy()

    found = gt.jacobian(lambda x: apply(steps, x, second))(first).numpy()
    found = found.reshape(math.prod(found.shape[: found.ndim - first.ndim]), first.size)
    for column in range(first.size):
        e = np.zeros(first.size)
        e[column] = 1.0
        e = e.reshape(first.shape)
        one, other = (
            (f(first + h * e) - f(first - h * e)).reshape(-1) / (2 * h) for h in (1e-5, 3e-6)
        )
        smooth = np.abs(one - other) < 1e-7
        close(found[smooth, column] * 1e-3, one[smooth] * 1e-3)


@pytest.mark.parametrize("modes", list(itertools.product(("forward", "reverse"), repeat=3)))
def test_derivatives_of_nothing(modes):
    first, second, third = modes
    slopes = gt.jacobian(gt.jacobian(lambda x: gt.tanh(gt.sin(x)[:0]), mode=first), mode=second)
    assert gt.jacobian(slopes, mode=third)(np.ones(3)).numpy().shape == (0, 3, 3, 3)


class TestComplex:
    z = np.array([0.3 + 0.4j, -0.5 + 0.2j])
    x = np.array([0.3, -0.5])

    @pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
    @pytest.mark.parametrize("sparse", [False, True])
    def test_holomorphic(self, mode, sparse):
        found = gt.jacobian(lambda z: gt.exp(z) * 1j, mode=mode, sparse=sparse)(self.z)
        found = found.toarray() if sparse else found.numpy()
        np.testing.assert_allclose(found, np.diag(1j * np.exp(self.z)), rtol=1e-12)

    @pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
    @pytest.mark.parametrize("sparse", [False, True])
    def test_real_of_complex(self, mode, sparse):
        found = gt.jacobian(lambda z: gt.real(z * gt.conj(z)), mode=mode, sparse=sparse)(self.z)
        found = found.toarray() if sparse else found.numpy()
        np.testing.assert_allclose(found, np.diag(2 * self.z), rtol=1e-12)

    @pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
    @pytest.mark.parametrize("sparse", [False, True])
    def test_complex_of_real(self, mode, sparse):
        found = gt.jacobian(lambda x: gt.exp(x * 1j), mode=mode, sparse=sparse)(self.x)
        found = found.toarray() if sparse else found.numpy()
        np.testing.assert_allclose(found, np.diag(1j * np.exp(1j * self.x)), rtol=1e-12)

    @pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
    def test_rows(self, mode):
        for f, data, expected in (
            (gt.exp, self.z, np.exp(self.z)),
            (lambda z: gt.real(z * gt.conj(z)), self.z, 2 * self.z),
            (lambda x: gt.exp(x * 1j), self.x, 1j * np.exp(1j * self.x)),
        ):
            with gt.GradientTape() as tape:
                source = gt.asarray(data)
                tape.watch(source)
                y = f(source)
            found = tape.batch_jacobian(y, source, mode=mode)
            assert found.dtype == np.complex128
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)

    def test_no_product_through_a_complex_waist(self):
        def f(x):
            total = gt.sum(gt.exp(x * 1j))
            return gt.real(total * np.arange(20.0) * (1 + 2j)) + gt.abs(total)

        x = np.linspace(0.0, 1.0, 20)
        expected = rows_of_gradients(f, gt.asarray(x))
        for mode in ("auto", "forward", "reverse"):
            close(gt.jacobian(f, mode=mode)(x), expected)

    def test_single_precision(self):
        x = self.x.astype("float32")
        for mode in ("forward", "reverse"):
            assert gt.jacobian(lambda x: gt.exp(x * 1j), mode=mode)(x).dtype == np.complex64
            assert gt.jacobian(lambda x: gt.cast(x, "float64"), mode=mode)(x).dtype == np.float32


class TestInside:
    """Derivatives written by hand, recomputed, or of what a variable holds."""

    @pytest.mark.parametrize("ask", [{}, {"sparse": True}, {"chunk_size": 2}])
    def test_a_derivative_by_hand_may_keep_what_it_was_given(self, ask):
        kept = []

        @gt.custom_gradient
        def doubled(x):
            def slope(g):
                kept.extend([g, g * 2.0])
                return kept[-1]

            return x * 2.0, slope

        x = gt.asarray([1.0, 2.0, 3.0])
        found = gt.jacobian(doubled, mode="reverse", **ask)(x)
        pending = gt.sin(x)
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = doubled(x)
        assert tape.gradient(y, x).tolist() == [2.0, 2.0, 2.0]
        np.testing.assert_allclose(pending.numpy(), np.sin([1.0, 2.0, 3.0]))
        found = found.toarray() if "sparse" in ask else found.numpy()
        np.testing.assert_allclose(found, 2.0 * np.eye(3))
        with pytest.raises(gt.errors.NoValueError, match="all seeds of a Jacobian at once"):
            kept[0].numpy()

    def test_a_derivative_by_hand_may_change_its_mind(self):
        factor = {"now": 2.0}

        @gt.custom_gradient
        def scaled(x):
            return gt.sin(x), lambda g: g * np.full(4, factor["now"]) * gt.cos(x)

        def loss(x):
            return gt.sum(scaled(x**2) * np.arange(4.0))

        x = np.linspace(0.1, 1.0, 4)
        for factor["now"] in (2.0, 3.0, 4.0):
            expected = gt.jacobian(gt.grad(loss))(x).numpy()
            close(gt.hessian(loss)(x), expected)
            close(gt.hessian(loss, sparse=True)(x).toarray(), expected)
            close(gt.hessian_operator(loss, x) @ np.eye(4), expected)
            close(gt.objective(loss).hess(x), expected)
            close(gt.prepare_hessian(loss, x, sparse=True)(x).toarray(), expected)

    def test_loops_of_unknown_length(self):
        def steps(x):
            return gt.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, s[1] * x + 0.1), (0, x))[
                1
            ]

        many = np.random.default_rng(0).uniform(size=(3, 3))
        expected = np.stack([gt.jacobian(steps, mode="forward")(x).numpy() for x in many])
        # Inside vmap nobody knows how many steps there are.
        close(gt.vmap(gt.jacobian(steps))(many), expected)
        mapped = gt.vmap(steps)
        with gt.GradientTape(persistent=True) as tape:
            x = gt.asarray(many)
            tape.watch(x)
            y = gt.sum(mapped(x), axis=1)
        whole = tape.jacobian(y, x).numpy()
        close(tape.jacobian(y, x, mode="reverse"), whole)
        close(np.stack([whole[i, i] for i in range(3)]), expected.sum(axis=1))
        close(tape.batch_jacobian(y, x, check=False), expected.sum(axis=1))
        close(tape.jacobian(y, x, chunk_size=2), whole)
        close(tape.jacobian(y, x, sparse=True).toarray(), whole.reshape(3, 9))

    @pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
    @pytest.mark.parametrize("sparse", [False, True])
    def test_custom_gradient(self, mode, sparse):
        @gt.custom_gradient
        def doubled(x):
            return gt.sin(x), lambda g: g * 2.0 * gt.cos(x)

        for _ in range(2):
            for data in ([0.1, 0.2, 0.3], [1.0, 2.0, 3.0]):
                x = np.array(data)
                found = gt.jacobian(lambda x: doubled(x) * x, mode=mode, sparse=sparse)(x)
                found = found.toarray() if sparse else found.numpy()
                expected = np.diag(2 * np.cos(x) * x + np.sin(x))
                np.testing.assert_allclose(found, expected, rtol=1e-12)

    @pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
    def test_custom_gradient_that_mixes(self, mode):
        @gt.custom_gradient
        def flipped(x):
            return gt.flip(x), lambda g: gt.flip(g) * 3.0

        found = gt.jacobian(lambda x: flipped(x * x), mode=mode)(np.array([1.0, 2.0]))
        np.testing.assert_allclose(found.numpy(), [[0.0, 12.0], [6.0, 0.0]])
        found = gt.jacobian(lambda x: flipped(x * x), mode=mode, sparse=True)(np.array([1.0, 2.0]))
        np.testing.assert_allclose(found.toarray(), [[0.0, 12.0], [6.0, 0.0]])

    @pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
    def test_custom_jvp(self, mode):
        @gt.custom_jvp
        def f(x):
            return gt.sin(x)

        f.defjvp(lambda primals, tangents: (f(primals[0]), 2.0 * gt.cos(primals[0]) * tangents[0]))
        x = np.array([0.3, 0.6])
        for sparse in (False, True):
            found = gt.jacobian(lambda x: f(x) * x, mode=mode, sparse=sparse)(x)
            found = found.toarray() if sparse else found.numpy()
            np.testing.assert_allclose(found, np.diag(2 * np.cos(x) * x + np.sin(x)), rtol=1e-12)

    @pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
    @pytest.mark.parametrize("sparse", [False, True])
    def test_checkpoint(self, mode, sparse):
        weights = np.sin(np.arange(9.0)).reshape(3, 3)

        def f(x):
            return gt.checkpoint(lambda x: gt.tanh(weights @ x) * x)(x) + x

        x = np.array([0.3, 0.6, 0.9])
        found = gt.jacobian(f, mode=mode, sparse=sparse)(x)
        found = found.toarray() if sparse else found.numpy()
        close(found, rows_of_gradients(f, gt.asarray(x)))

    def test_py_function(self):
        def f(x):
            return gt.py_function(lambda x: x * gt.sin(x), [x], ((3,), gt.float64))

        x = np.array([0.3, 0.6, 0.9])
        found = gt.jacobian(f, mode="reverse")(x)
        np.testing.assert_allclose(found.numpy(), np.diag(np.sin(x) + x * np.cos(x)))

    def test_variables_that_are_assigned(self):
        v, w = gt.Variable([1.0, 2.0]), gt.Variable([3.0, 4.0])
        with gt.GradientTape(persistent=True) as tape:
            y = v * w
            w.assign(y * v)
            z = w * w
        # z = (v² w₀)²
        np.testing.assert_allclose(tape.jacobian(z, v).numpy(), np.diag([36.0, 512.0]))
        np.testing.assert_allclose(tape.jacobian(z, w).numpy(), np.diag([6.0, 128.0]))
        np.testing.assert_allclose(
            tape.jacobian(z, w, sparse=True).toarray(), np.diag([6.0, 128.0])
        )
        w.assign([0.0, 0.0])
        np.testing.assert_allclose(tape.jacobian(z, v).numpy(), np.diag([36.0, 512.0]))

    def test_look_ups(self):
        """The rows of a table are sources like others."""
        table = gt.Variable(np.arange(8.0).reshape(4, 2))
        where = np.array([2, 0, 2])
        with gt.GradientTape(persistent=True) as tape:
            y = gt.take(table, where, axis=0) ** 2
        expected = np.zeros((3, 2, 4, 2))
        for row, place in enumerate(where):
            for column in range(2):
                expected[row, column, place, column] = 2 * table.numpy()[place, column]
        for mode in ("auto", "forward", "reverse"):
            close(tape.jacobian(y, table, mode=mode).numpy(), expected)
            found = tape.jacobian(y, table, mode=mode, sparse=True)
            assert found.nnz == 6
            close(found.toarray(), expected.reshape(6, 8))

    def test_inside_vmap(self):
        data = np.arange(6.0).reshape(2, 3)
        found = gt.vmap(gt.jacobian(lambda x: gt.sin(x) * x[0]))(data).numpy()
        for row, one in zip(found, data, strict=True):
            close(row, gt.jacobian(lambda x: gt.sin(x) * x[0])(one).numpy())
        found = gt.vmap(gt.hessian(lambda x: gt.prod(x)))(data + 1.0).numpy()
        for row, one in zip(found, data + 1.0, strict=True):
            close(row, gt.hessian(gt.prod)(one).numpy())

    def test_sparse_inside_vmap_is_refused(self):
        with pytest.raises(gt.errors.NoValueError):
            gt.vmap(lambda x: gt.asarray(gt.jacobian(gt.sin, sparse=True)(x).toarray()))(
                np.ones((2, 3))
            )

    def test_inside_a_function(self):
        f = gt.function(lambda x: gt.jacobian(lambda x: gt.sin(x) * x)(x))
        for data in ([1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]):
            x = np.array(data)
            close(f(x), np.diag(np.sin(x) + x * np.cos(x)))

    def test_sparse_inside_a_function_runs_in_python(self):
        @gt.function
        def f(x):
            return gt.asarray(gt.jacobian(lambda x: gt.sin(x) * x, sparse=True)(x).toarray())

        x = np.array([1.0, 2.0])
        with pytest.warns(UserWarning, match="a value leaves for Python"):
            close(f(x), np.diag(np.sin(x) + x * np.cos(x)))
        for data in ([3.0, 4.0], [5.0, 6.0]):
            x = np.array(data)
            close(f(x), np.diag(np.sin(x) + x * np.cos(x)))

    def test_of_a_function(self):
        @gt.function
        def f(x):
            return gt.sin(x) * x

        for data in ([1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]):
            x = np.array(data)
            close(gt.jacobian(f)(x), np.diag(np.sin(x) + x * np.cos(x)))
