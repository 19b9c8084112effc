"""A beam search: lists of hypotheses, sorted by scores, and the gradient of the winner's."""

import itertools

import numpy as np
import pytest
from tests.programs.running import all_ways, differences, nothing_new

import gradtape as gt

LENGTH, WORDS = 4, 5


def log_softmax(x, xp):
    top = xp.max(x)
    return x - top - xp.log(xp.sum(xp.exp(x - top)))


def sort_by_float(beams):
    return sorted(beams, key=lambda beam: -float(beam[0]))


def sort_by_comparison(beams):
    """Only `<` of scores is asked for: what was seen becomes a guard."""
    found = []
    for beam in beams:
        place = 0
        while place < len(found) and beam[0] < found[place][0]:
            place += 1
        found.insert(place, beam)
    return found


def search(weights, xp, width=3, sort=sort_by_comparison, choose=max):
    """The score of the best sequence of words, and the sequence.

    The score of a word depends on the one before, so the greedy choice is not always the best.
    """
    beams = [(weights[0, 0] * 0.0, ())]
    for _ in range(LENGTH):
        longer = []
        for score, words in beams:
            last = words[-1] if words else 0
            scores = log_softmax(weights[last], xp)
            longer += [(score + scores[word], (*words, word)) for word in range(WORDS)]
        beams = sort(longer)[:width]
    return beams[0]


def brute_force(weights):
    """The best of all sequences: what a beam as wide as there are sequences finds."""
    rows = [log_softmax(row, np) for row in weights]
    return max(
        (sum(rows[a][b] for a, b in itertools.pairwise((0, *words))), words)
        for words in itertools.product(range(WORDS), repeat=LENGTH)
    )


def samples(count):
    rng = np.random.default_rng(8)
    return [2.0 * rng.standard_normal((WORDS, WORDS)) for _ in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("way", all_ways(lambda x: x))
def test_score_and_gradient_of_the_winner(way):
    run = all_ways(lambda w: search(w, gt)[0])[way]
    for weights in [*samples(4), *samples(4)]:
        value, gradient = run(gt.asarray(weights))
        expected, _ = search(weights, np)
        assert float(value) == pytest.approx(expected)
        slopes = differences(lambda w: search(w, np)[0], weights)
        np.testing.assert_allclose(gradient.numpy(), slopes, atol=1e-8)


@pytest.mark.slow
def test_words_belong_to_the_path_taken():
    compiled = gt.function(lambda w: search(w, gt))
    for weights in [*samples(6), *samples(6)]:
        score, words = compiled(gt.asarray(weights))
        expected, expected_words = search(weights, np)
        assert words == expected_words
        assert float(score) == pytest.approx(expected)


def test_a_wide_beam_finds_the_best_of_all():
    compiled = gt.function(lambda w: search(w, gt, width=WORDS**LENGTH // 2, sort=_by_value))
    with pytest.warns(UserWarning, match="leaves for Python"):
        score, words = compiled(gt.asarray(samples(1)[0]))
    expected, expected_words = brute_force(samples(1)[0])
    assert words == expected_words
    assert float(score) == pytest.approx(expected)


def _by_value(beams):
    scores = gt.stack([score for score, _ in beams]).numpy()
    return [beams[place] for place in np.argsort(-scores, kind="stable")]


def test_scores_read_as_floats_run_in_python_and_are_right():
    compiled = gt.function(lambda w: search(w, gt, sort=sort_by_float))
    with pytest.warns(UserWarning, match="leaves for Python at .*test_beam_search.py"):
        compiled(gt.asarray(samples(1)[0]))
    for weights in samples(3):
        x = gt.asarray(weights)
        with gt.GradientTape() as tape:
            tape.watch(x)
            score, words = compiled(x)
        expected, expected_words = search(weights, np)
        assert words == expected_words
        assert float(score) == pytest.approx(expected)
        slopes = differences(lambda w: search(w, np)[0], weights)
        np.testing.assert_allclose(tape.gradient(score, x).numpy(), slopes, atol=1e-8)


@pytest.mark.usefixtures("compiled_at_once")
def test_a_second_search_builds_nothing():
    weights = gt.asarray(samples(1)[0])

    def ranked(w):
        with gt.GradientTape() as tape:
            tape.watch(w)
            score, words = search(w, gt, width=2)
        return score, words, tape.gradient(score, w)

    for run in (ranked, gt.function(ranked)):
        first = run(weights)
        gt.evaluate(first[2])
        with nothing_new():
            again = run(weights)
            gt.evaluate(again[2])
        assert again[1] == first[1]


@pytest.mark.slow
def test_scores_on_the_device_sorted_by_topk():
    """The same search with the beam as one tensor."""

    def searched(weights):
        logits = weights - gt.logsumexp(weights, axis=1, keepdims=True)
        scores, last = logits[0], gt.arange(WORDS)
        for _ in range(LENGTH - 1):
            flat = gt.reshape(scores[:, None] + logits[last], (-1,))
            order = gt.argsort(flat, descending=True, stable=True)[:WORDS]
            scores, last = flat[order], order % WORDS
        return scores[0]

    for run in all_ways(searched).values():
        for weights in samples(3):
            value, gradient = run(gt.asarray(weights))
            assert float(value) == pytest.approx(search(weights, np, width=WORDS)[0])
            slopes = differences(lambda w: search(w, np, width=WORDS)[0], weights)
            np.testing.assert_allclose(gradient.numpy(), slopes, atol=1e-8)
