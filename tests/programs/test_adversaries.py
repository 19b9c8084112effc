"""Two networks trained against each other: two optimisers, two tapes, or one tape asked twice."""

import numpy as np
import pytest
from tests.programs.running import nothing_new

import gradtape as gt

RATE = 0.1


class Line(gt.nn.Module):
    """A linear layer whose start is known."""

    def __init__(self, slope, offset):
        self.slope, self.offset = gt.Variable(slope), gt.Variable(offset)

    def call(self, x):
        return x @ self.slope + self.offset


class Game:
    """Generator and critic with their optimisers, and the noise they play with."""

    def __init__(self, optimizer=gt.optimizers.SGD):
        rng = np.random.default_rng(5)
        self.generator = Line(rng.standard_normal((2, 3)), rng.standard_normal(3))
        self.critic = Line(rng.standard_normal((3, 1)), np.zeros(1))
        self.for_generator = optimizer(RATE)
        self.for_critic = optimizer(RATE)
        self.noise = gt.random.Generator(11)

    def losses(self, real):
        fake = self.generator(self.noise.normal((4, 2)))
        loss = gt.mean(gt.log1p(gt.exp(-self.critic(real)))) + gt.mean(
            gt.log1p(gt.exp(self.critic(fake)))
        )
        return loss, gt.mean(gt.log1p(gt.exp(-self.critic(fake))))

    @property
    def state(self):
        modules = (self.generator, self.critic, self.for_generator, self.for_critic)
        return [v.numpy() for module in modules for v in module.variables], self.noise.state

    # Three ways to take a step.

    def two_tapes(self, real):
        with gt.GradientTape() as for_critic, gt.GradientTape() as for_generator:
            critic_loss, generator_loss = self.losses(real)
        critic, generator = self.critic.parameters(), self.generator.parameters()
        by_critic = for_critic.gradient(critic_loss, critic)
        by_generator = for_generator.gradient(generator_loss, generator)
        self.for_critic.apply_gradients(zip(by_critic, critic, strict=True))
        self.for_generator.apply_gradients(zip(by_generator, generator, strict=True))
        return critic_loss, generator_loss

    def one_persistent_tape(self, real):
        with gt.GradientTape(persistent=True) as tape:
            critic_loss, generator_loss = self.losses(real)
        critic, generator = self.critic.parameters(), self.generator.parameters()
        self.for_critic.apply_gradients(
            zip(tape.gradient(critic_loss, critic), critic, strict=True)
        )
        # The critic has moved; the tape still means what it recorded.
        self.for_generator.apply_gradients(
            zip(tape.gradient(generator_loss, generator), generator, strict=True)
        )
        return critic_loss, generator_loss

    def alternating(self, real):
        """The generator answers to the critic that has just learnt."""
        critic, generator = self.critic.parameters(), self.generator.parameters()
        with gt.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(critic)
            critic_loss, _ = self.losses(real)
        self.for_critic.apply_gradients(
            zip(tape.gradient(critic_loss, critic), critic, strict=True)
        )
        with gt.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(generator)
            _, generator_loss = self.losses(real)
        self.for_generator.apply_gradients(
            zip(tape.gradient(generator_loss, generator), generator, strict=True)
        )
        return critic_loss, generator_loss


WAYS = ["two_tapes", "one_persistent_tape", "alternating"]


def batches(count):
    rng = np.random.default_rng(6)
    return [gt.asarray(rng.standard_normal((4, 3)) + 2.0) for _ in range(count)]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class ArrayGame:
    """The same by hand, with gradient descent."""

    def __init__(self, game):
        copies = [np.array(v.numpy()) for m in (game.generator, game.critic) for v in m.variables]
        self.a, self.b, self.c, self.d = copies
        self.noise = gt.random.Generator.from_state(game.noise.state)

    def play(self, z):
        fake = z @ self.a + self.b
        return fake, fake @ self.c + self.d

    def critic_slopes(self, z, real):
        fake, guess = self.play(z)
        truth = real @ self.c + self.d
        by_truth, by_guess = -sigmoid(-truth) / len(z), sigmoid(guess) / len(z)
        return real.T @ by_truth + fake.T @ by_guess, by_truth.sum(0) + by_guess.sum(0)

    def generator_slopes(self, z):
        by_fake = (-sigmoid(-self.play(z)[1]) / len(z)) @ self.c.T
        return z.T @ by_fake, by_fake.sum(0)

    def step(self, way, real):
        z = self.noise.normal((4, 2)).numpy()
        by_c, by_d = self.critic_slopes(z, real)
        if way == "alternating":
            self.c, self.d = self.c - RATE * by_c, self.d - RATE * by_d
            z = self.noise.normal((4, 2)).numpy()
        by_a, by_b = self.generator_slopes(z)
        if way != "alternating":
            self.c, self.d = self.c - RATE * by_c, self.d - RATE * by_d
        self.a, self.b = self.a - RATE * by_a, self.b - RATE * by_b


@pytest.mark.parametrize("decorated", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_steps_equal_those_by_hand(way, decorated):
    game = Game()
    by_hand = ArrayGame(game)
    step = gt.function(getattr(game, way)) if decorated else getattr(game, way)
    for real in batches(20):
        step(real)
        by_hand.step(way, real.numpy())
        for found, expected in zip(
            [*game.generator.variables, *game.critic.variables],
            [by_hand.a, by_hand.b, by_hand.c, by_hand.d],
            strict=True,
        ):
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-12)
    assert game.noise.state == by_hand.noise.state


@pytest.mark.parametrize("optimizer", [gt.optimizers.Adam, gt.optimizers.RMSprop])
@pytest.mark.parametrize("way", WAYS)
def test_decorated_equals_undecorated_with_optimizer_state(way, optimizer):
    plain, decorated = Game(optimizer), Game(optimizer)
    step, compiled = getattr(plain, way), gt.function(getattr(decorated, way))
    for real in batches(12):
        for a, b in zip(step(real), compiled(real), strict=True):
            assert float(a) == pytest.approx(float(b), rel=1e-9)
        (arrays, noise), (twins, twin_noise) = plain.state, decorated.state
        assert noise == twin_noise
        for a, b in zip(arrays, twins, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-12)


@pytest.mark.usefixtures("compiled_at_once")
@pytest.mark.parametrize("way", WAYS)
def test_later_steps_build_nothing(way):
    game = Game(gt.optimizers.Adam)
    step = gt.function(getattr(game, way))
    real = batches(1)[0]
    for _ in range(3):
        step(real)
    with nothing_new():
        for _ in range(5):
            step(real)


def test_only_some_steps_train_the_generator():
    """A guard on the step count, which the function itself moves on."""

    def make():
        game, count = Game(), gt.Variable(0, trainable=False)

        def step(real):
            critic, generator = game.critic.parameters(), game.generator.parameters()
            with gt.GradientTape(persistent=True) as tape:
                critic_loss, generator_loss = game.losses(real)
            game.for_critic.apply_gradients(
                zip(tape.gradient(critic_loss, critic), critic, strict=True)
            )
            count.assign_add(1)
            if count % 3 == 0:
                game.for_generator.apply_gradients(
                    zip(tape.gradient(generator_loss, generator), generator, strict=True)
                )
            return critic_loss

        return game, count, step

    game, count, step = make()
    twin, twin_count, twin_step = make()
    compiled = gt.function(twin_step)
    for real in batches(10):
        assert float(step(real)) == pytest.approx(float(compiled(real)), rel=1e-9)
        assert int(count) == int(twin_count)
        (arrays, noise), (twins, twin_noise) = game.state, twin.state
        assert noise == twin_noise
        for a, b in zip(arrays, twins, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    assert int(game.for_generator.iterations) == 3
