"""The worked examples give what they promise."""

import numpy as np
import pytest
from examples import demo
from examples.brusselator import Brusselator
from examples.bundle_adjustment import adjust, disturbed, make_scene, rotate
from examples.nonlinear_regression import PROBLEMS, digits, fit

import gradtape as gt


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_regression_reaches_the_certified_digits(problem, start):
    assert len(problem.x) == len(problem.y)
    found, left = fit(problem, problem.starts[start])
    assert digits(found, problem.parameters) > 9
    assert digits(left, problem.sum_of_squares) > 9


def test_regression_parameters_are_differentiable_by_the_data():
    # Linear in the data to first order: moving every y along the model moves b as it should.
    problem = next(p for p in PROBLEMS if p.name == "DanWood")
    x, y = np.array(problem.x), np.array(problem.y)
    scale = np.array(problem.parameters)

    def parameters(y):
        return gt.minimize(
            lambda s: gt.sum((problem.model(s * scale, x) - y) ** 2), np.ones(2)
        ) * gt.asarray(scale)

    jacobian = gt.jacobian(parameters)(y).numpy()
    step = 1e-4 * np.array([1.0, -1.0, 2.0, 0.5, -0.5, 1.0])
    ahead, behind = parameters(y + step).numpy(), parameters(y - step).numpy()
    np.testing.assert_allclose(jacobian @ step, (ahead - behind) / 2, rtol=1e-5)


def test_brusselator_with_and_without_a_sparse_jacobian():
    problem = Brusselator(6)
    fast = problem.solve(jacobian=True, until=2.0, tolerance=1e-6)
    slow = problem.solve(jacobian=False, until=2.0, tolerance=1e-6)
    assert fast.success
    assert slow.success
    np.testing.assert_allclose(fast.y[:, -1], slow.y[:, -1], rtol=1e-4)
    # The exact Jacobian costs no step more.
    assert fast.t.size <= 1.2 * slow.t.size


def test_brusselator_jacobian_is_a_dozen_products():
    problem = Brusselator(32)
    slope = problem.slope()
    prepared = gt.prepare_jacobian(lambda y: slope(0.0, y), problem.start())
    assert prepared.shape == (2048, 2048)
    assert prepared.pattern.nnz == 6 * 2048
    assert prepared.method == "column"
    assert prepared.colours <= 12
    y = problem.start() + 0.5
    v = np.cos(np.arange(2048.0))
    product = gt.linear_operator(lambda y: slope(0.0, y), y) @ v
    np.testing.assert_allclose(prepared(y) @ v, product, rtol=1e-9, atol=1e-9)


def test_rotation_is_differentiable_where_there_is_none():
    v = np.array([[1.0, 2.0, 3.0]])
    found = gt.jacobian(lambda a: rotate(v, a))(np.zeros((1, 3))).numpy().reshape(3, 3)
    # d(a × v) = -[v]×
    np.testing.assert_allclose(found, [[0.0, 3.0, -2.0], [-3.0, 0.0, 1.0], [2.0, -1.0, 0.0]])


def test_bundle_adjustment_finds_the_truth():
    scene = make_scene(cameras=6, points=40)
    guess = disturbed(scene)
    found, result, r = adjust(scene, guess)
    assert result.success
    assert result.cost < 1e-15
    np.testing.assert_allclose(found["points"], scene.points, atol=1e-7)
    np.testing.assert_allclose(found["cameras"], scene.truth()["cameras"], rtol=1e-5, atol=1e-6)
    # A row has an entry for each number of its camera, if that is unknown, and of its point. Each
    # coordinate of a picture moves with all of them.
    unknown = np.sum(scene.camera_of >= 2)
    assert r.jac_sparsity.nnz == 2 * (3 * len(scene.camera_of) + 9 * unknown)


def test_demo_answers_its_questions_and_draws(monkeypatch, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    monkeypatch.setattr(demo, "SECONDS", 0.0)
    monkeypatch.setattr(demo, "WARM", 0.0)
    assert demo.questions(tmp_path)
    assert demo.sparse_jacobian(tmp_path)
    shown = capsys.readouterr().out
    assert shown.count("[ok]") == 6
    assert "⠻⣦" in shown
    assert (tmp_path / "jacobian.png").stat().st_size > 1000


@pytest.mark.slow
def test_demo_fails_where_an_answer_is_wrong(monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "SECONDS", 0.0)
    monkeypatch.setattr(demo, "WARM", 0.0)
    monkeypatch.setattr(demo, "STEPS", 25)
    monkeypatch.setattr(demo, "questions", lambda folder: True)
    # A network that was hardly trained is not right in 97 of 100 cases.
    assert demo.main(tmp_path) == 1


def test_demo_may_be_profiled_as_a_whole(tmp_path, capsys):
    with gt.profile():
        assert demo.report(tmp_path, lambda: gt.asarray(1.0))
    assert "another profile is running" in capsys.readouterr().out
    assert demo.report(tmp_path, lambda: gt.asarray(1.0))
    assert (tmp_path / "report.html").exists()
