"""CONTRACT: checkpoints save what their policy says, and change no derivative."""

import numpy as np
import pytest

import gradtape as gt

rng = np.random.default_rng(0)
WEIGHTS = [gt.asarray(rng.normal(size=(8, 8)) * 0.3) for _ in range(4)]
X = rng.normal(size=(5, 8))


def block(x, a, b):
    hidden = gt.checkpoint_name(gt.tanh(x @ a), "hidden")
    return gt.exp(-((hidden @ b) ** 2)) + x


def model(policy=None):
    layer = block if policy is None else gt.checkpoint(block, policy=policy)

    def loss(x):
        y = layer(layer(x, *WEIGHTS[:2]), *WEIGHTS[2:])
        return gt.sum(y * y)

    return loss


POLICIES = {
    "nothing": "nothing",
    "contractions": "contractions",
    "only": gt.save_only("hidden"),
    "only others": gt.save_only("other"),
    "except": gt.save_any_except("hidden"),
    "everything": "everything",
}
policies = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


def kept(policy):
    return gt.saved_for_backward(model(policy), X)


def close(got, expected):
    np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-10, atol=1e-12)


@policies
def test_first_and_second_derivatives(policy):
    f, plain = model(policy), model()
    close(gt.grad(f)(X), gt.grad(plain)(X))
    second, expected = (gt.grad(lambda x, g=g: gt.sum(gt.grad(g)(x) ** 2)) for g in (f, plain))
    close(second(X), expected(X))
    third, expected = (gt.grad(lambda x, g=g: gt.sum(g(x) ** 2)) for g in (second, expected))
    np.testing.assert_allclose(third(X).numpy(), expected(X).numpy(), rtol=1e-8, atol=1e-8)


@policies
def test_derivatives_after_the_value_was_looked_at(policy):
    def second(f):
        x = gt.asarray(X)
        with gt.GradientTape() as outer:
            outer.watch(x)
            with gt.GradientTape() as inner:
                inner.watch(x)
                y = f(x)
            float(y)
            slope = inner.gradient(y, x)
            slope.numpy()
            total = gt.sum(slope * slope)
        return slope, outer.gradient(total, x)

    for got, expected in zip(second(model(policy)), second(model()), strict=True):
        close(got, expected)


@policies
def test_forward_mode(policy):
    f, plain = model(policy), model()
    close(gt.jvp(f, (X,), (X,))[1], gt.jvp(plain, (X,), (X,))[1])
    close(gt.hvp(f, gt.asarray(X), X), gt.hvp(plain, gt.asarray(X), X))


@policies
def test_inside_function(policy):
    f, plain = gt.function(gt.value_and_grad(model(policy))), gt.value_and_grad(model())
    for scale in (1.0, 0.5, 2.0):
        x = gt.asarray(scale * X)
        for got, expected in zip(f(x), plain(x), strict=True):
            close(got, expected)


@policies
def test_inside_and_around_vmap(policy):
    xs = rng.normal(size=(3, 5, 8))
    expected = gt.vmap(gt.grad(model()))(xs)
    close(gt.vmap(gt.grad(model(policy)))(xs), expected)
    close(gt.grad(lambda xs: gt.sum(gt.vmap(model(policy))(xs)))(xs), expected)


@policies
def test_with_variables(policy):
    w = gt.Variable(rng.normal(size=(8, 8)))
    layer = gt.checkpoint(lambda x: gt.tanh(x @ w), policy=policy)

    def gradient(f):
        with gt.GradientTape() as tape:
            y = gt.sum(f(f(gt.asarray(X))) ** 2)
        float(y)
        return tape.gradient(y, w)

    close(gradient(layer), gradient(lambda x: gt.tanh(x @ w)))


class TestWhatIsKept:
    def test_nothing_but_results(self):
        assert [one.op for one in kept(None)] == ["matmul"] * 4
        assert [one.op for one in kept("nothing")] == ["add"] * 2

    def test_contractions(self):
        assert [one.op for one in kept("contractions")] == ["matmul"] * 4

    def test_by_name(self):
        only = kept(gt.save_only("hidden"))
        assert [one.name for one in only] == ["hidden", None] * 2
        without = kept(gt.save_any_except("hidden"))
        assert {one.op for one in without} == {"matmul", "square", "negative", "exp", "add"}
        assert len(kept(gt.save_only("other"))) == len(kept("nothing"))

    def test_everything(self):
        found = kept("everything")
        assert {one.op for one in found} == {"matmul", "tanh", "square", "negative", "exp", "add"}
        assert found.nbytes > kept(gt.save_any_except("hidden")).nbytes

    def test_of_many_examples(self):
        xs = rng.normal(size=(3, 5, 8))

        def size(policy):
            f = model(policy)
            return gt.saved_for_backward(lambda xs: gt.sum(gt.vmap(f)(xs)), xs).nbytes

        assert size("nothing") < size(None) <= size("contractions") < size("everything")

    def test_tapes_report_it(self):
        def held(policy):
            x = gt.asarray(X)
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = model(policy)(x)
            float(y)
            return int(tape.report().partition(" values kept")[0].rpartition(" ")[2])

        assert held("nothing") < held(None) < held("everything")

    def test_what_is_saved_is_not_computed_again(self):
        def backward(policy):
            x = gt.asarray(X)
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = model(policy)(x)
            float(y)
            before = gt.counters().ops_run
            tape.gradient(y, x).numpy()
            return gt.counters().ops_run - before

        ops = [backward(p) for p in ("nothing", "contractions", gt.save_any_except("hidden"))]
        assert ops == sorted(ops, reverse=True)
        assert len(set(ops)) == 3

    def test_values_looked_at_inside_are_let_go(self):
        def f(x):
            return gt.sum(gt.linalg.cholesky(x @ gt.matrix_transpose(x) + gt.eye(8)))

        x = rng.normal(size=(8, 8))
        plain = gt.saved_for_backward(f, x)
        again = gt.saved_for_backward(lambda x: gt.checkpoint(f)(x) * 2.0, x)
        assert "cholesky" in [one.op for one in plain]
        assert "cholesky" not in [one.op for one in again]
        close(gt.grad(gt.checkpoint(f))(x), gt.grad(f)(x))


class TestNesting:
    def test_the_outer_policy_has_the_last_word(self):
        def f(outer, inner):
            layer = gt.checkpoint(block, policy=inner)
            whole = gt.checkpoint(
                lambda x: layer(layer(x, *WEIGHTS[:2]), *WEIGHTS[2:]), policy=outer
            )
            return lambda x: gt.sum(whole(x) ** 2)

        for outer in POLICIES.values():
            for inner in ("nothing", "contractions"):
                close(gt.grad(f(outer, inner))(X), gt.grad(model())(X))
        assert len(gt.saved_for_backward(f("nothing", "contractions"), X)) == 1
        assert "matmul" in [s.op for s in gt.saved_for_backward(f("contractions", "nothing"), X)]

    @pytest.mark.parametrize("policy", ["nothing", "contractions"])
    def test_custom_derivatives_inside(self, policy):
        @gt.custom_gradient
        def softplus(x):
            e = gt.exp(x)
            return gt.log(1.0 + e), lambda dy: dy * (1.0 - 1.0 / (1.0 + e))

        def f(x):
            return gt.sum(softplus(gt.sin(x) @ WEIGHTS[0]) * x)

        g = gt.checkpoint(f, policy=policy)
        close(gt.grad(g)(X), gt.grad(f)(X))
        second, expected = (gt.grad(lambda x, h=h: gt.sum(gt.grad(h)(x) ** 2)) for h in (g, f))
        for _ in range(2):
            close(second(X), expected(X))

    def test_python_inside_is_not_asked_again(self):
        calls = []

        def noisy(x):
            calls.append(1)
            return x * len(calls)

        @gt.checkpoint
        def f(x):
            return gt.sin(x) * gt.stop_gradient(gt.numpy_function(noisy, [x], ((), gt.float64)))

        assert float(gt.grad(f)(1.0)) == pytest.approx(np.cos(1.0))
        assert len(calls) == 1


class TestResults:
    def test_an_argument_that_is_returned(self):
        f = gt.checkpoint(lambda x, y: (y, gt.sin(x)))

        def total(x, y):
            a, b = f(x, y)
            return a * 3.0 + b

        slopes = gt.grad(total, argnums=(0, 1))(0.0, 2.0)
        assert [float(s) for s in slopes] == [1.0, 3.0]

    def test_several_outputs_of_one_op(self):
        def f(a):
            values, vectors = gt.linalg.eigh(a + gt.matrix_transpose(a))
            return gt.sum(values**2) + gt.sum(gt.abs(vectors[0]))

        a = rng.normal(size=(4, 4))
        close(gt.grad(gt.checkpoint(f))(a), gt.grad(f)(a))
        assert len(gt.saved_for_backward(gt.checkpoint(f), a)) <= 1

    def test_nothing_recorded_inside(self):
        assert float(gt.grad(gt.checkpoint(lambda x: x))(2.0)) == 1.0
        assert gt.checkpoint(lambda: 3.0)().item() == 3.0


def test_unknown_words():
    with pytest.raises(ValueError, match="'everything'"):
        gt.checkpoint(block, policy="all")
    with pytest.raises(TypeError, match="Give strings"):
        gt.save_only(3)
    with pytest.raises(TypeError, match="Give a string"):
        gt.checkpoint_name(gt.asarray(1.0), 3)


def test_lines_and_sizes():
    def f(x):
        return gt.sum(gt.tanh(x @ WEIGHTS[0]))

    (saved,) = gt.saved_for_backward(f, X)
    assert (saved.op, saved.shape, saved.dtype, saved.nbytes) == ("matmul", (5, 8), "float64", 320)
    assert saved.line == f"{__file__}:{f.__code__.co_firstlineno + 1}"
    text = str(gt.saved_for_backward(f, X))
    assert text.startswith("1 value kept (320 bytes)")
    assert "float64[5,8]" in text
    mapped = gt.saved_for_backward(lambda x: gt.sum(gt.vmap(lambda r: f(r[None]))(x)), X)
    assert mapped[0].line.startswith(__file__)


def test_listing_leaves_no_trace():
    v = gt.Variable(np.ones((2, 2)))
    x = gt.asarray(1.0) * 2.0
    with gt.GradientTape() as tape:
        y = gt.sum(v @ v)
        gt.saved_for_backward(lambda a: gt.sum(v @ a), np.ones((2, 2)))
    np.testing.assert_array_equal(tape.gradient(y, v).numpy(), np.full((2, 2), 4.0))
    assert float(x) == 2.0
    assert len(gt.saved_for_backward(gt.function(lambda a: gt.sum(gt.sin(v @ a))), np.eye(2))) == 1
