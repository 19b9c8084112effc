"""The tool's side of GradBench's protocol, with small inputs and answers known otherwise."""

from __future__ import annotations

import io
import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special
import scipy.stats
from benchmarks.gradbench import protocol

RUNS = {"min_runs": 2, "min_seconds": 0}


def session(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers to messages, as they travel over the pipes."""
    lines = "".join(
        json.dumps({"id": place, **message}) + "\n" for place, message in enumerate(messages)
    )
    answers = io.StringIO()
    protocol.serve(io.StringIO(lines), answers)
    return [json.loads(line) for line in answers.getvalue().splitlines()]


def output(module: str, function: str, given: Any) -> Any:
    (answer,) = session(
        {"kind": "evaluate", "module": module, "function": function, "input": given}
    )
    assert answer["success"], answer["error"]
    return answer["output"]


def difference(module: str, function: str, given: dict[str, Any], name: str) -> np.ndarray:
    """The gradient of an output by one of the inputs, by differences of the output itself."""
    x, h = np.asarray(given[name], dtype="float64"), 1e-5
    slopes = np.zeros((*x.shape, *np.shape(output(module, function, given))))
    for place in np.ndindex(x.shape):
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[place] += sign * h
            ends.append(np.asarray(output(module, function, {**given, name: moved.tolist()})))
        slopes[place] = (ends[0] - ends[1]) / (2 * h)
    return slopes


def test_a_session() -> None:
    evaluate = {"kind": "evaluate", "module": "hello", "function": "square", "input": 3.0}
    answers = session(
        {"kind": "start", "eval": "hello"},
        {"kind": "define", "module": "hello"},
        evaluate,
        {"kind": "analysis", "of": 2, "valid": True},
        {**evaluate, "function": "double", "input": 9.0},
    )
    assert [answer["id"] for answer in answers] == [0, 1, 2, 3, 4]
    assert answers[0] == {"id": 0, "tool": "gradtape"}
    assert answers[1] == {"id": 1, "success": True}
    assert answers[2]["output"] == 9.0
    assert answers[4]["output"] == 18.0
    assert answers[3] == {"id": 3}
    assert [timing["name"] for timing in answers[2]["timings"]] == ["evaluate"]


def test_failures_are_answers() -> None:
    answers = session(
        {"kind": "define", "module": "unheard"},
        {"kind": "evaluate", "module": "lse", "function": "cube", "input": {"x": [1.0], **RUNS}},
        {"kind": "evaluate", "module": "lse", "function": "primal", "input": {**RUNS}},
        {"kind": "define", "module": "lse"},
    )
    assert [answer["success"] for answer in answers] == [False, False, False, True]
    assert "no module is called 'unheard'" in answers[0]["error"]
    assert "no function 'cube'" in answers[1]["error"]


def test_runs_are_timed_as_often_as_asked() -> None:
    given = {"x": [1.0, 2.0], "min_runs": 5, "min_seconds": 0}
    (answer,) = session({"kind": "evaluate", "module": "lse", "function": "primal", "input": given})
    assert len(answer["timings"]) == 5
    assert all(timing["nanoseconds"] > 0 for timing in answer["timings"])


EVALUATIONS = (
    *("hello", "gmm", "lse", "kmeans", "ode", "llsq"),
    *("lstm", "ba", "ht", "det", "particle", "saddle"),
)


def test_every_evaluation_is_defined() -> None:
    answers = session(*({"kind": "define", "module": name} for name in EVALUATIONS))
    assert all(answer["success"] for answer in answers)


def test_lse() -> None:
    given = {"x": [0.5, -1.0, 700.0, 699.0], **RUNS}
    assert output("lse", "primal", given) == pytest.approx(scipy.special.logsumexp(given["x"]))
    found = output("lse", "gradient", given)
    np.testing.assert_allclose(found, scipy.special.softmax(given["x"]), rtol=1e-12)


def test_kmeans() -> None:
    points = [[0.0, 0.0], [1.0, 0.0], [10.0, 10.0]]
    given = {"points": points, "centroids": [[0.0, 1.0], [9.0, 9.0]], **RUNS}
    assert output("kmeans", "cost", given) == pytest.approx(1 + 2 + 2)
    # A Newton step ends at the mean of each cluster.
    found = np.asarray(given["centroids"]) - output("kmeans", "dir", given)
    np.testing.assert_allclose(found, [[0.5, 0.0], [10.0, 10.0]], atol=1e-12)


def test_ode() -> None:
    given = {"x": [2.0, 3.0, 0.5], "s": 4, **RUNS}
    # y_0 = 2 t, y_1 = 3 t², y_2 = t³ / 2: a method of fourth order has no error.
    np.testing.assert_allclose(output("ode", "primal", given), [4.0, 12.0, 4.0], rtol=1e-12)
    # The last state at time 2 is x_0 x_1 x_2 8 / 6.
    np.testing.assert_allclose(output("ode", "gradient", given), [2.0, 4 / 3, 8.0], rtol=1e-12)


def test_llsq() -> None:
    x, n = [0.3, -0.2, 0.7], 5
    t = np.linspace(-1, 1, n)
    powers = np.vander(t, 3, increasing=True)
    miss = np.sign(t) - powers @ x
    given = {"x": x, "n": n, **RUNS}
    assert output("llsq", "primal", given) == pytest.approx(0.5 * miss @ miss)
    np.testing.assert_allclose(output("llsq", "gradient", given), -powers.T @ miss, rtol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 5, 9])
def test_det(order: int) -> None:
    a = np.random.default_rng(order).uniform(size=(order, order)) + np.eye(order)
    given = {"A": a.ravel().tolist(), "ell": order, **RUNS}
    expected = np.linalg.det(a)
    assert output("det", "primal", given) == pytest.approx(expected, rel=1e-9)
    found = np.reshape(output("det", "gradient", given), (order, order))
    np.testing.assert_allclose(found, expected * np.linalg.inv(a).T, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("d", [1, 3])
def test_gmm(d: int) -> None:
    rng = np.random.default_rng(5)
    k, n = 2, 4
    given = {
        "d": d,
        "k": k,
        "n": n,
        "m": 1,
        "gamma": 1.5,
        **RUNS,
        "x": rng.normal(size=(n, d)).tolist(),
        "alpha": rng.normal(size=k).tolist(),
        "mu": rng.uniform(size=(k, d)).tolist(),
        "q": rng.normal(size=(k, d)).tolist(),
        "l": rng.normal(size=(k, d * (d - 1) // 2)).tolist(),
    }
    assert output("gmm", "objective", given) == pytest.approx(_posterior(given), rel=1e-10)
    found = output("gmm", "jacobian", given)
    assert list(found) == ["alpha", "mu", "q", "l"]
    for name, part in found.items():
        if np.size(part):
            wanted = difference("gmm", "objective", given, name)
            np.testing.assert_allclose(part, wanted, rtol=1e-6, atol=1e-6)


def _posterior(given: dict[str, Any]) -> float:
    """The definition: densities of Gauss and of Wishart, and no simplification."""
    d, m, gamma = given["d"], given["m"], given["gamma"]
    weights = scipy.special.softmax(given["alpha"])
    factors = []
    for q, below in zip(given["q"], given["l"], strict=True):
        factor = np.diag(np.exp(q))
        columns, rows = np.triu_indices(d, 1)
        factor[rows, columns] = below
        factors.append(factor)
    total = 0.0
    for x in given["x"]:
        density = 0.0
        for weight, mu, factor in zip(weights, given["mu"], factors, strict=True):
            off = factor @ (np.asarray(x) - mu)
            scale = abs(np.linalg.det(factor)) / (2 * math.pi) ** (d / 2)
            density += weight * scale * math.exp(-0.5 * off @ off)
        total += math.log(density)
    for factor in factors:
        precision = factor.T @ factor
        total += scipy.stats.wishart.logpdf(precision, d + m + 1, np.eye(d) / gamma**2)
    return total


def test_lstm() -> None:
    rng = np.random.default_rng(6)
    width = 3
    given = {
        "main_params": rng.normal(size=(4, 4 * width)).tolist(),
        "extra_params": rng.normal(size=(3, width)).tolist(),
        "state": rng.normal(size=(4, width)).tolist(),
        "sequence": rng.integers(0, 2, size=(4, width)).astype("float64").tolist(),
        **RUNS,
    }
    assert output("lstm", "objective", given) == pytest.approx(_lstm_loss(given), rel=1e-12)
    found = output("lstm", "jacobian", given)
    wanted = [
        difference("lstm", "objective", given, name).ravel()
        for name in ("main_params", "extra_params")
    ]
    np.testing.assert_allclose(found, np.concatenate(wanted), rtol=1e-5, atol=1e-8)


def _lstm_loss(given: dict[str, Any]) -> float:
    """One scalar at a time."""
    main, extra = given["main_params"], given["extra_params"]
    state = np.array(given["state"])
    sequence, width = given["sequence"], state.shape[1]
    total = 0.0
    for now, after in itertools.pairwise(sequence):
        x = [now[j] * extra[0][j] for j in range(width)]
        for layer in range(len(state) // 2):
            weight, bias = main[2 * layer], main[2 * layer + 1]
            for j in range(width):
                hidden, cell = state[2 * layer, j], state[2 * layer + 1, j]
                inputs = (x[j], hidden, x[j], hidden)
                f, i, o, c = (
                    inputs[gate] * weight[gate * width + j] + bias[gate * width + j]
                    for gate in range(4)
                )
                f, i, o = (1 / (1 + math.exp(-z)) for z in (f, i, o))
                cell = cell * f + i * math.tanh(c)
                state[2 * layer, j], state[2 * layer + 1, j] = o * math.tanh(cell), cell
            x = list(state[2 * layer])
        y = [x[j] * extra[1][j] + extra[2][j] for j in range(width)]
        norm = math.log(sum(map(math.exp, y)) + 2)
        total += sum(after[j] * (y[j] - norm) for j in range(width))
    return -total / (width * (len(sequence) - 1))


@pytest.mark.parametrize("turned", [True, False])
def test_ba(turned: bool) -> None:
    cam = [0.1, -0.2, 0.3] if turned else [0.0, 0.0, 0.0]
    cam += [0.2, 0.1, -6.0, 400.0, 2.0, 3.0, 0.01, 0.002]
    given = {"n": 2, "m": 3, "p": 4, "cam": cam, "x": [0.5, 0.6, 0.7], "w": 0.9}
    given |= {"feat": [10.0, 20.0], **RUNS}
    found = output("ba", "objective", given)
    np.testing.assert_allclose(found["reproj_error"]["elements"], _reprojection(given), rtol=1e-10)
    assert found["reproj_error"]["repeated"] == 4
    assert found["w_err"] == {"element": pytest.approx(1 - 0.81), "repeated": 4}
    matrix = output("ba", "jacobian", given)
    # Two rows of 15 entries for each sight, then one entry for each weight.
    assert matrix["rows"] == [*(15 * k for k in range(9)), 121, 122, 123, 124, 124]
    assert matrix["cols"][:15] == [*range(11), 22, 23, 24, 31]
    assert matrix["cols"][-1] == 34
    assert matrix["vals"][-1] == pytest.approx(-1.8)
    if not turned:
        return  # the objective has a kink there
    places = [("cam", k) for k in range(11)] + [("x", k) for k in range(3)] + [("w", None)]
    for column, (name, k) in enumerate(places):
        ends = []
        for sign in (1, -1):
            moved = dict(given)
            if k is None:
                moved[name] = given[name] + sign * 1e-6
            else:
                moved[name] = list(given[name])
                moved[name][k] += sign * 1e-6
            ends.append(_reprojection(moved))
        slope = (ends[0] - ends[1]) / 2e-6
        both = [matrix["vals"][column], matrix["vals"][15 + column]]
        np.testing.assert_allclose(both, slope, rtol=1e-4, atol=1e-4)


def _reprojection(given: dict[str, Any]) -> np.ndarray:
    cam = np.asarray(given["cam"])
    x, axis = np.asarray(given["x"]) - cam[3:6], cam[:3]
    angle = float(np.linalg.norm(axis))
    cross = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    turned = scipy.linalg.expm(cross) @ x if angle else x
    flat = turned[:2] / turned[2]
    r = flat @ flat
    flat = flat * (1 + cam[9] * r + cam[10] * r * r)
    return np.asarray(given["w"] * (flat * cam[6] + cam[7:9] - given["feat"]))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["rr", "rf", "fr", "ff"])
def test_particle(mode: str) -> None:
    # The evaluation's own answer.
    found = output("particle", mode, {"w": 0.0, "min_runs": 1, "min_seconds": 0})
    assert found == pytest.approx(0.2071918746486116, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["rf", "fr"])
def test_saddle(mode: str) -> None:
    # The evaluation's own answer.
    given = {"start": [1.0, 1.0], "min_runs": 1, "min_seconds": 0}
    np.testing.assert_allclose(
        output("saddle", mode, given), [8.246324826140356e-06] * 4, atol=1e-7
    )
