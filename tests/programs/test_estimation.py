"""Estimation: a Kalman filter in a scan, and a Metropolis sampler that accepts or rejects."""

import numpy as np
import pytest
from tests.programs.running import Counted, all_ways, differences, nothing_new

import gradtape as gt


class TestKalman:
    """Position and speed from noisy positions; the likelihood and its gradient by the noises."""

    @staticmethod
    def matrices(xp, log_noise):
        move = xp.asarray([[1.0, 1.0], [0.0, 1.0]])
        drift = xp.exp(log_noise[0]) * xp.asarray([[0.25, 0.5], [0.5, 1.0]])
        return move, drift, xp.exp(log_noise[1])

    @classmethod
    def step(cls, xp, log_noise, state, y):
        move, drift, noise = cls.matrices(xp, log_noise)
        mean, spread = state
        mean, spread = move @ mean, move @ spread @ move.T + drift
        surprise, size = y - mean[0], spread[0, 0] + noise
        gain = spread[:, 0] / size
        mean = mean + gain * surprise
        spread = spread - gain[:, None] * spread[0][None, :]
        score = -0.5 * (surprise * surprise / size + xp.log(2.0 * np.pi * size))
        return (mean, spread), (score, mean)

    def scanned(self, log_noise, observations):
        start = (gt.zeros((2,)), 10.0 * gt.eye(2))
        _, (scores, _) = gt.scan(
            lambda state, y: self.step(gt, log_noise, state, y), start, observations
        )
        return gt.sum(scores)

    def looped(self, log_noise, observations):
        state, total = (gt.zeros((2,)), 10.0 * gt.eye(2)), 0.0
        for y in observations:
            state, (score, _) = self.step(gt, log_noise, state, y)
            total = total + score
        return total

    def in_arrays(self, log_noise, observations):
        state, total = (np.zeros(2), 10.0 * np.eye(2)), 0.0
        for y in observations:
            state, (score, _) = self.step(np, log_noise, state, y)
            total += score
        return total

    @staticmethod
    def observations(seed):
        rng = np.random.default_rng(seed)
        return np.cumsum(0.5 + 0.3 * rng.standard_normal(12)) + rng.standard_normal(12)

    @pytest.mark.parametrize("method", ["scanned", "looped"])
    @pytest.mark.parametrize("way", all_ways(lambda x: x))
    def test_likelihood_and_gradient(self, method, way):
        run = all_ways(getattr(self, method))[way]
        for seed, log_noise in ((0, [0.0, 0.0]), (1, [-2.0, 1.0]), (2, [1.0, -1.0])):
            observations = self.observations(seed)
            value, gradient = run(gt.asarray(log_noise), gt.asarray(observations))
            expected = self.in_arrays(np.array(log_noise), observations)
            assert float(value) == pytest.approx(expected, rel=1e-10)
            slopes = differences(lambda n, o=observations: self.in_arrays(n, o), log_noise)
            np.testing.assert_allclose(gradient.numpy(), slopes, rtol=1e-6, atol=1e-7)

    def test_noises_are_found_by_newtons_method(self):
        observations = gt.asarray(self.observations(3))

        @gt.function
        def improved(log_noise):
            def f(n):
                return -self.scanned(n, observations) + 0.05 * gt.sum(n * n)

            slope, curvature = gt.grad(f)(log_noise), gt.hessian(f)(log_noise)
            values, vectors = gt.linalg.eigh(curvature)
            curvature = (vectors * gt.maximum(gt.abs(values), 0.1)) @ vectors.T
            return log_noise - gt.clip(gt.linalg.solve(curvature, slope), -1.0, 1.0), slope

        log_noise = gt.asarray([0.0, 0.0])
        for _ in range(25):
            log_noise, slope = improved(log_noise)
        np.testing.assert_allclose(slope.numpy(), 0.0, atol=1e-6)

        def by_hand(n):
            return self.in_arrays(n, observations.numpy()) - 0.05 * n @ n

        np.testing.assert_allclose(differences(by_hand, log_noise.numpy()), 0.0, atol=1e-5)


class TestMetropolis:
    """A chain whose steps are accepted by chance: draws before and behind the guards."""

    @staticmethod
    def log_density(x):
        return -0.5 * gt.sum((x - 1.0) ** 2)

    def chain(self, generator, x, steps=5, width=1.5):
        accepted = 0
        for _ in range(steps):
            proposal = x + width * generator.normal((2,))
            ratio = self.log_density(proposal) - self.log_density(x)
            if gt.log(generator.uniform(())) < ratio:
                x = proposal
                accepted += 1
            else:
                # Drawn on one of the ways only: the streams part here.
                x = x + 0.01 * generator.normal((2,))
        return x, accepted

    def test_a_decorated_chain_is_the_undecorated_one(self):
        plain, decorated = gt.random.Generator(3), gt.random.Generator(3)
        counted = Counted(lambda x: self.chain(decorated, x))
        compiled = gt.function(counted)
        x = twin = gt.asarray([0.0, 0.0])
        for _ in range(100):
            x, accepted = self.chain(plain, x)
            twin, twin_accepted = compiled(twin)
            assert accepted == twin_accepted
            np.testing.assert_allclose(x.numpy(), twin.numpy(), rtol=1e-12)
            assert plain.state == decorated.state
        # Thirty-two ways to accept and reject, each recorded by two runs: then Python rests.
        assert counted.runs <= 64

    def test_the_shared_stream_and_seeds_set_meanwhile(self):
        def shared(x):
            return self.chain(gt.random, x)[0]

        compiled = gt.function(shared)
        start = gt.asarray([0.0, 0.0])
        for seed in (1, 2, 1, 3, 2, 1):
            gt.random.seed(seed)
            expected = [shared(start).tolist() for _ in range(3)]
            gt.random.seed(seed)
            assert [compiled(start).tolist() for _ in range(3)] == expected

    def test_a_chain_with_its_state_in_variables(self):
        def make():
            generator = gt.random.Generator(9)
            x, mean, count = gt.Variable([0.0, 0.0]), gt.Variable([0.0, 0.0]), gt.Variable(0)

            def step():
                new, _ = self.chain(generator, x.value, steps=1)
                x.assign(new)
                count.assign_add(1)
                mean.assign_add((new - mean) / gt.astype(count.value, gt.float64))

            return step, [x, mean, count], generator

        step, variables, generator = make()
        twin_step, twins, twin_generator = make()
        compiled = gt.function(twin_step)
        for _ in range(200):
            step()
            compiled()
        for a, b in zip(variables, twins, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9)
        assert generator.state == twin_generator.state
        np.testing.assert_allclose(variables[1].numpy(), 1.0, atol=0.5)

    def test_the_gradient_of_the_end_by_the_width(self):
        """Of the path that was taken: the same numbers drawn again."""

        def end(width):
            generator = gt.random.Generator(8)
            return gt.sum(self.chain(generator, gt.zeros((2,)), width=width)[0])

        for run in all_ways(end).values():
            for width in (1.5, 0.7, 1.5, 0.4):
                value, gradient = run(gt.asarray(width))
                assert float(value) == pytest.approx(float(end(width)))
                expected = differences(lambda w: float(end(float(w))), width)
                assert float(gradient) == pytest.approx(float(expected), rel=1e-6)

    @pytest.mark.usefixtures("compiled_at_once")
    def test_known_ways_build_nothing(self):
        generator = gt.random.Generator(0)
        compiled = gt.function(lambda x: self.chain(generator, x, steps=2)[0])
        x = gt.asarray([0.0, 0.0])
        for _ in range(60):
            x = compiled(x)
        with nothing_new():
            for _ in range(20):
                x = compiled(x)


def test_variational_inference_draws_anew_in_every_step():
    """The reparameterised gradient of a normal distribution fitted to another."""

    def make():
        mean, log_width = gt.Variable([0.0, 0.0]), gt.Variable([0.0, 0.0])
        generator, optimizer = gt.random.Generator(2), gt.optimizers.Adam(0.05)

        def step():
            with gt.GradientTape() as tape:
                noise = generator.normal((64, 2))
                z = mean + gt.exp(log_width) * noise
                target = -0.5 * gt.sum(((z - 2.0) / 0.5) ** 2, axis=1)
                loss = -gt.mean(target) - gt.sum(log_width)
            slopes = tape.gradient(loss, [mean, log_width])
            optimizer.apply_gradients(zip(slopes, [mean, log_width], strict=True))
            return loss

        return step, [mean, log_width], generator

    step, variables, generator = make()
    twin_step, twins, twin_generator = make()
    compiled = gt.function(twin_step)
    for _ in range(300):
        step()
        compiled()
    for a, b in zip(variables, twins, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-7)
    assert generator.state == twin_generator.state
    np.testing.assert_allclose(variables[0].numpy(), 2.0, atol=0.1)
    np.testing.assert_allclose(variables[1].numpy(), np.log(0.5), atol=0.1)
