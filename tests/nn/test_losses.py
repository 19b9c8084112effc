"""Losses against formulas in NumPy and SciPy, their reductions, extremes and derivatives."""

import numpy as np
import pytest
from scipy import special

import gradtape as gt
from gradtape.nn import losses

RNG = np.random.default_rng(0)
T, P = RNG.normal(size=(4, 3)), RNG.normal(size=(4, 3))
SHARES, TARGETS = (special.softmax(RNG.normal(size=(4, 3)), axis=1) for _ in range(2))
ONE_HOT = np.eye(3)[[0, 2, 1, 2]]
LABELS = np.array([0, 2, 1, 2])
BITS = (T > 0).astype(float)
ODDS = special.expit(P)


def cosine(t, p):
    return -np.sum(t * p, -1) / np.linalg.norm(t, axis=-1) / np.linalg.norm(p, axis=-1)


def entropy(t, p):
    return -np.mean(t * np.log(p) + (1 - t) * np.log(1 - p), -1)


# Name: targets, predictions, options, one loss for each example.
CASES = {
    "mean_squared_error": (T, P, {}, np.mean((T - P) ** 2, -1)),
    "mean_absolute_error": (T, P, {}, np.mean(np.abs(T - P), -1)),
    "huber": (T, P, {"delta": 0.7}, np.mean(special.huber(0.7, T - P), -1)),
    "log_cosh": (T, P, {}, np.mean(np.log(np.cosh(P - T)), -1)),
    "hinge": (np.sign(T), P, {}, np.mean(np.maximum(1 - np.sign(T) * P, 0), -1)),
    "kl_divergence": (TARGETS, SHARES, {}, np.sum(special.rel_entr(TARGETS, SHARES), -1)),
    "cosine_similarity": (T, P, {}, cosine(T, P)),
    "binary_crossentropy": (BITS, ODDS, {}, entropy(BITS, ODDS)),
    "binary_crossentropy logits": (BITS, P, {"from_logits": True}, entropy(BITS, ODDS)),
    "binary_crossentropy smooth": (
        BITS, P, {"from_logits": True, "label_smoothing": 0.2}, entropy(BITS * 0.8 + 0.1, ODDS),
    ),
    "categorical_crossentropy": (TARGETS, SHARES, {}, -np.sum(TARGETS * np.log(SHARES), -1)),
    "categorical_crossentropy sums": (
        TARGETS, SHARES * 5.0, {}, -np.sum(TARGETS * np.log(SHARES), -1),
    ),
    "categorical_crossentropy logits": (
        TARGETS, P, {"from_logits": True}, -np.sum(TARGETS * special.log_softmax(P, -1), -1),
    ),
    "categorical_crossentropy smooth": (
        ONE_HOT, P, {"from_logits": True, "label_smoothing": 0.3},
        -np.sum((ONE_HOT * 0.7 + 0.1) * special.log_softmax(P, -1), -1),
    ),
    "sparse_categorical_crossentropy": (LABELS, SHARES, {}, -np.log(SHARES[range(4), LABELS])),
    "sparse_categorical_crossentropy logits": (
        LABELS, P, {"from_logits": True}, -special.log_softmax(P, -1)[range(4), LABELS],
    ),
    "softmax_cross_entropy_with_logits": (
        TARGETS, P, {}, -np.sum(TARGETS * special.log_softmax(P, -1), -1),
    ),
    "sigmoid_cross_entropy_with_logits": (
        BITS, P, {}, -(BITS * np.log(ODDS) + (1 - BITS) * np.log(1 - ODDS)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_values_and_reductions(case):
    t, p, options, expected = CASES[case]
    function = getattr(losses, case.split()[0])
    each = function(t, p, **options, reduction="none")
    assert each.shape == expected.shape
    np.testing.assert_allclose(each.numpy(), expected, rtol=1e-12)
    for reduction, reduce in (("mean", np.mean), ("sum", np.sum)):
        got = float(function(t, p, **options, reduction=reduction))
        np.testing.assert_allclose(got, reduce(expected), rtol=1e-12)
    default = np.asarray(function(t, p, **options).numpy())
    np.testing.assert_allclose(default, expected if case.endswith("_logits") else expected.mean())


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_derivatives(case):
    t, p, options, _ = CASES[case]
    function = getattr(losses, case.split()[0])
    gt.testing.check_gradients(lambda p: function(t, p, **options, reduction="sum"), p)


@pytest.mark.parametrize("case", CASES)
def test_single_precision_and_integer_targets(case):
    t, p, options, expected = CASES[case]
    function = getattr(losses, case.split()[0])
    narrow = t if t.dtype.kind == "i" else t.astype("float32")
    got = function(narrow, p.astype("float32"), **options, reduction="none")
    assert got.dtype == np.float32
    np.testing.assert_allclose(got.numpy(), expected, rtol=2e-4, atol=1e-6)


def test_targets_that_are_differentiated():
    gt.testing.check_gradients(
        lambda t: losses.softmax_cross_entropy_with_logits(t, P, reduction="sum"), ONE_HOT
    )


class TestExtremes:
    def test_sigmoid(self):
        x = gt.asarray([1e4, -1e4, 1e4, -1e4, 30.0, 0.0])
        t = np.array([1.0, 0.0, 0.0, 1.0, 1.0, 1.0])
        with gt.GradientTape() as tape:
            tape.watch(x)
            loss = losses.sigmoid_cross_entropy_with_logits(t, x)
        expected = [0, 0, 1e4, 1e4, np.exp(-30.0), np.log(2.0)]
        np.testing.assert_allclose(loss.numpy(), expected, rtol=1e-9)
        slopes = [0, 0, 1, -1, -np.exp(-30.0), -0.5]
        np.testing.assert_allclose(tape.gradient(loss, x).numpy(), slopes, rtol=1e-9)

    @pytest.mark.parametrize("sparse", [False, True])
    def test_softmax(self, sparse):
        x = gt.asarray([[1e4, -1e4, 0.0], [-np.inf, 0.0, 0.0]])
        labels = np.array([1, 2])
        with gt.GradientTape() as tape:
            tape.watch(x)
            if sparse:
                loss = losses.sparse_categorical_crossentropy(
                    labels, x, from_logits=True, reduction="none"
                )
            else:
                loss = losses.softmax_cross_entropy_with_logits(np.eye(3)[labels], x)
        np.testing.assert_allclose(loss.numpy(), [2e4, np.log(2.0)])
        slopes = [[1.0, -1.0, 0.0], [0.0, 0.5, -0.5]]
        np.testing.assert_allclose(tape.gradient(loss, x).numpy(), slopes)

    def test_probabilities_of_zero_and_one_give_finite_losses(self):
        assert float(losses.binary_crossentropy([1.0, 0.0], [0.0, 1.0])) < 20.0
        assert float(losses.categorical_crossentropy([[0.0, 1.0]], [[1.0, 0.0]])) < 20.0
        assert float(losses.kl_divergence([[0.0, 1.0]], [[1.0, 0.0]])) < 20.0

    def test_cosine_of_nothing(self):
        x = gt.asarray([[0.0, 0.0]])
        with gt.GradientTape() as tape:
            tape.watch(x)
            loss = losses.cosine_similarity([[1.0, 0.0]], x)
        assert float(loss) == 0.0
        assert np.isfinite(tape.gradient(loss, x).numpy()).all()

    def test_log_cosh(self):
        got = losses.log_cosh([0.0, 0.0], [1e4, -1e4], reduction="none")
        np.testing.assert_allclose(float(got), 1e4 - np.log(2.0))


class TestSparseLabels:
    def test_other_axes_and_kept_axis(self):
        logits = RNG.normal(size=(2, 3, 4))
        labels = RNG.integers(0, 3, (2, 4))
        expected = -np.take_along_axis(special.log_softmax(logits, 1), labels[:, None], 1)[:, 0]
        for given in (labels, labels[:, None], labels.astype("uint8")):
            got = losses.sparse_categorical_crossentropy(
                given, logits, from_logits=True, axis=1, reduction="none"
            )
            np.testing.assert_allclose(got.numpy(), expected)

    def test_out_of_range(self):
        for wrong in (-1, 3):
            with pytest.raises(IndexError, match=rf"label {wrong} is not a class \(0 to 2\)"):
                losses.sparse_categorical_crossentropy([0, wrong], P[:2])

    def test_labels_still_to_be_computed(self):
        labels = gt.asarray([0, 1]) * 3
        got = losses.sparse_categorical_crossentropy(labels, P[:2], True, reduction="none").numpy()
        np.testing.assert_allclose(got[0], -special.log_softmax(P[0])[0])
        assert np.isnan(got[1])
        single = P[:2].astype("float32")
        assert losses.sparse_categorical_crossentropy(labels + 0, single).dtype == np.float32

    def test_wrong_labels(self):
        with pytest.raises(TypeError, match="float64 are not integers"):
            losses.sparse_categorical_crossentropy([0.0, 1.0], P[:2])
        with pytest.raises(ValueError, match=r"\(3,\) do not fit.*\(2, 3\).*\(2,\)"):
            losses.sparse_categorical_crossentropy([0, 1, 2], P[:2])


def test_shapes_are_not_broadcast():
    for function in (losses.mean_squared_error, losses.huber, losses.binary_crossentropy):
        with pytest.raises(ValueError, match=r"\(4,\).*\(4, 1\)"):
            function(np.zeros(4), np.zeros((4, 1)))


def test_numbers_and_integers():
    assert float(losses.mean_squared_error(1.0, 3.0)) == 4.0
    assert float(losses.mean_absolute_error([1, 2], [2, 4])) == 1.5
    got = losses.mean_squared_error(np.array([1, 2]), np.zeros(2, "float32"))
    assert got.dtype == np.float32


def test_hinge_takes_zeros_and_ones():
    binary, signs = np.array([0.0, 1.0]), np.array([-1.0, 1.0])
    p = np.array([0.3, 0.4])
    assert float(losses.hinge(binary, p)) == float(losses.hinge(signs, p))


def test_unknown_reduction():
    with pytest.raises(ValueError, match="'average' is unknown"):
        losses.mean_squared_error(T, P, reduction="average")
