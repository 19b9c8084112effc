"""Iterations of numerical methods: line search, clusters, eigenvectors, conjugate gradients."""

import numpy as np
import pytest
from tests.programs.running import Counted, all_ways, differences, nothing_new

import gradtape as gt


def rosenbrock(x):
    return (1.0 - x[0]) ** 2 + 20.0 * (x[1] - x[0] ** 2) ** 2


def slope_of(x):
    return np.array(
        [
            -2 * (1 - x[0]) - 80 * x[0] * (x[1] - x[0] ** 2),
            40 * (x[1] - x[0] ** 2),
        ]
    )


class TestLineSearch:
    """Gradient descent whose steps are halved until the function falls enough (Armijo)."""

    @staticmethod
    def descend(x, steps=6):
        halvings = []
        for _ in range(steps):
            value, slope = gt.value_and_grad(rosenbrock)(x)
            step, count = 1.0, 0
            while rosenbrock(x - step * slope) > value - 0.3 * step * gt.sum(slope * slope):
                step *= 0.5
                count += 1
            x = x - step * slope
            halvings.append(count)
        return x, halvings

    @staticmethod
    def in_arrays(x, steps=6):
        halvings = []
        for _ in range(steps):
            value, slope, step = rosenbrock(x), slope_of(x), 1.0
            while rosenbrock(x - step * slope) > value - 0.3 * step * slope @ slope:
                step *= 0.5
            x = x - step * slope
            halvings.append(round(-np.log2(step)))
        return x, halvings

    STARTS = ([-1.2, 1.0], [0.5, 0.5], [-1.2, 1.0], [2.0, -1.0], [0.0, 3.0], [0.5, 0.5])

    @pytest.mark.parametrize("decorated", [False, True])
    def test_steps_are_those_of_the_reference(self, decorated):
        counted = Counted(self.descend)
        run = gt.function(counted) if decorated else counted
        for start in self.STARTS:
            x, halvings = run(gt.asarray(start))
            expected, expected_halvings = self.in_arrays(np.array(start))
            assert halvings == expected_halvings
            np.testing.assert_allclose(x.numpy(), expected, rtol=1e-9)
        # Both starts that come again take a path that one run has recorded before.
        assert counted.runs == 6

    def test_the_derivative_of_where_it_ends(self):
        for run in all_ways(lambda x: gt.sum(self.descend(x, 3)[0])).values():
            for start in self.STARTS[:3]:
                _, gradient = run(gt.asarray(start))
                expected = differences(lambda x: self.in_arrays(x, 3)[0].sum(), start)
                np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-4, atol=1e-5)


class TestClusters:
    """k-means with a check of convergence."""

    @staticmethod
    def cluster(points, centres, limit=50):
        rounds = 0
        while True:
            rounds += 1
            distances = gt.sum((points[:, None] - centres[None]) ** 2, axis=2)
            nearest = gt.argmin(distances, axis=1)
            members = gt.astype(nearest[:, None] == gt.arange(len(centres)), points.dtype)
            new = (members.T @ points) / gt.maximum(gt.sum(members, axis=0), 1.0)[:, None]
            if gt.max(gt.abs(new - centres)) < 1e-12 or rounds == limit:
                return new, rounds, gt.sum(gt.min(distances, axis=1))
            centres = new

    @staticmethod
    def in_arrays(points, centres):
        rounds = 0
        while True:
            rounds += 1
            distances = ((points[:, None] - centres[None]) ** 2).sum(2)
            nearest = distances.argmin(1)
            new = np.stack([points[nearest == k].mean(0) for k in range(len(centres))])
            if np.abs(new - centres).max() < 1e-12:
                return new, rounds, distances.min(1).sum()
            centres = new

    @staticmethod
    def points(seed):
        rng = np.random.default_rng(seed)
        middles = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
        return (rng.standard_normal((30, 2)) + middles[np.arange(30) % 3]) * 1.0

    @pytest.mark.parametrize("decorated", [False, True])
    def test_clusters_and_rounds(self, decorated):
        run = gt.function(self.cluster) if decorated else self.cluster
        seen = set()
        for seed in (0, 1, 2, 0, 3, 1):
            points = self.points(seed)
            centres, rounds, inertia = run(gt.asarray(points), gt.asarray(points[:3]))
            expected, expected_rounds, expected_inertia = self.in_arrays(points, points[:3])
            np.testing.assert_allclose(centres.numpy(), expected)
            assert rounds == expected_rounds
            assert float(inertia) == pytest.approx(expected_inertia)
            seen.add(rounds)
        assert len(seen) > 1

    def test_the_gradient_of_the_inertia(self):
        def inertia(points):
            return self.cluster(points, gt.stop_gradient(points[:3]))[2]

        for run in all_ways(inertia).values():
            for seed in (0, 1, 0):
                points = self.points(seed)
                _, gradient = run(gt.asarray(points))
                expected = differences(lambda p: self.in_arrays(p, p[:3])[2], points, 1e-5)
                np.testing.assert_allclose(gradient.numpy(), expected, atol=1e-6)


class TestPowerIteration:
    """The largest eigenvalue, and its derivative by the matrix: the eigenvector's square."""

    @staticmethod
    def largest(matrix):
        vector = gt.ones((len(matrix),), dtype=matrix.dtype)
        value = gt.asarray(0.0)
        rounds = 0
        while True:
            product = matrix @ vector
            vector = product / gt.linalg.vector_norm(product)
            new, old = vector @ matrix @ vector, value
            value = new
            rounds += 1
            if gt.abs(new - old) < 1e-14 * gt.abs(new):
                return value, rounds

    @staticmethod
    def matrix(seed):
        a = np.random.default_rng(seed).standard_normal((4, 4))
        return a @ a.T + np.diag([4.0, 1.0, 0.5, 0.0])

    @pytest.mark.parametrize("way", all_ways(lambda x: x))
    def test_eigenvalue_and_derivative(self, way):
        run = all_ways(lambda matrix: self.largest(matrix)[0])[way]
        for seed in (0, 1, 2, 0, 1):
            matrix = self.matrix(seed)
            value, gradient = run(gt.asarray(matrix))
            values, vectors = np.linalg.eigh(matrix)
            assert float(value) == pytest.approx(values[-1])
            top = vectors[:, -1]
            np.testing.assert_allclose(gradient.numpy(), np.outer(top, top), atol=1e-5)

    def test_rounds_differ_and_are_told(self):
        compiled = gt.function(self.largest)
        for seed in (0, 1, 2, 3, 0, 1, 2, 3):
            matrix = gt.asarray(self.matrix(seed))
            assert compiled(matrix)[1] == self.largest(matrix)[1]


class TestConjugateGradients:
    """A linear system, in a `while_loop` of the library and in one of Python."""

    @staticmethod
    def step(matrix, x, residual, direction, square):
        product = matrix @ direction
        length = square / (direction @ product)
        x, residual = x + length * direction, residual - length * product
        new = residual @ residual
        return x, residual, residual + (new / square) * direction, new

    def in_loop(self, matrix, b):
        start = (gt.zeros_like(b), b, b, b @ b)
        return gt.while_loop(
            lambda carry: carry[3] > 1e-22,
            lambda carry: self.step(matrix, *carry),
            start,
        )[0]

    def in_python(self, matrix, b):
        carry = (gt.zeros_like(b), b, b, b @ b)
        while carry[3] > 1e-22:
            carry = self.step(matrix, *carry)
        return carry[0]

    @staticmethod
    def system(seed, n=5):
        rng = np.random.default_rng(seed)
        a = rng.standard_normal((n, n))
        # Fewer distinct eigenvalues need fewer steps.
        q, _ = np.linalg.qr(a)
        values = 1.0 + np.arange(n) % (1 + seed)
        return q @ np.diag(values) @ q.T, rng.standard_normal(n)

    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["in_loop", "in_python"])
    @pytest.mark.parametrize("way", all_ways(lambda x: x))
    def test_solutions_and_gradients(self, method, way):
        weights = np.arange(1.0, 6.0)

        def solved(b, matrix):
            return getattr(self, method)(matrix, b) @ gt.asarray(weights)

        run = all_ways(solved)[way]
        for seed in (1, 2, 3, 1, 4, 2):
            matrix, b = self.system(seed)
            value, gradient = run(gt.asarray(b), gt.asarray(matrix))
            assert float(value) == pytest.approx(np.linalg.solve(matrix, b) @ weights, rel=1e-8)
            # The loop ends when it is exact, so its derivative is that of the solution.
            np.testing.assert_allclose(
                gradient.numpy(), np.linalg.solve(matrix.T, weights), rtol=1e-5, atol=1e-6
            )

    @pytest.mark.usefixtures("compiled_at_once")
    @pytest.mark.parametrize("method", ["in_loop", "in_python"])
    def test_the_same_system_again_builds_nothing(self, method):
        run = gt.function(getattr(self, method))
        systems = [tuple(map(gt.asarray, self.system(seed))) for seed in (1, 2, 3)]
        for matrix, b in systems:
            run(matrix, b)
        with nothing_new():
            found = [run(matrix, b).numpy() for matrix, b in systems]
        for (matrix, b), x in zip(systems, found, strict=True):
            np.testing.assert_allclose(matrix.numpy() @ x, b.numpy(), atol=1e-9)
