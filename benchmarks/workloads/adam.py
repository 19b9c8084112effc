"""Adam as Kingma and Ba (2015, algorithm 1) write it, for each library in its best form.

Each update takes lists of weights, first moments, second moments and gradients.
"""

from __future__ import annotations

from typing import Any

import numpy as np

RATE, DECAY, SQUARE_DECAY, EPSILON = 1e-3, 0.9, 0.999, 1e-7
Lists = tuple[list[Any], list[Any], list[Any]]


def corrections(step: int) -> tuple[float, float]:
    """The divisors that correct both moments for their start at zero."""
    return 1 - DECAY**step, 1 - SQUARE_DECAY**step


def zeros(weights: list[Any]) -> list[Any]:
    return [np.zeros_like(weight) for weight in weights]


def by_numpy(state: Lists, gradients: list[Any], step: int) -> Lists:
    """The reference, in the dtype of its arguments."""
    first, second = corrections(step)
    weights, momenta, squares = state
    momenta = [DECAY * m + (1 - DECAY) * g for m, g in zip(momenta, gradients, strict=True)]
    squares = [
        SQUARE_DECAY * v + (1 - SQUARE_DECAY) * g * g
        for v, g in zip(squares, gradients, strict=True)
    ]
    weights = [
        w - RATE * (m / first) / (np.sqrt(v / second) + EPSILON)
        for w, m, v in zip(weights, momenta, squares, strict=True)
    ]
    return weights, momenta, squares


class ForGradtape:
    """Variables and the update, written in tensor code."""

    def __init__(self, weights: list[Any]) -> None:
        import gradtape as gt

        self.gt = gt
        self.weights = [gt.Variable(weight) for weight in weights]
        self.momenta = [gt.Variable(zero, trainable=False) for zero in zeros(weights)]
        self.squares = [gt.Variable(zero, trainable=False) for zero in zeros(weights)]
        self.all = self.weights + self.momenta + self.squares
        self.step = 0

    def advance(self) -> tuple[float, float]:
        """Count a step; return the divisors of the two moments in it."""
        self.step += 1
        return corrections(self.step)

    def apply(self, gradients: list[Any], first: float, second: float) -> None:
        sqrt = self.gt.sqrt
        for w, m, v, g in zip(self.weights, self.momenta, self.squares, gradients, strict=True):
            m.assign(DECAY * m + (1 - DECAY) * g)
            v.assign(SQUARE_DECAY * v + (1 - SQUARE_DECAY) * g * g)
            w.assign_sub(RATE * (m / first) / (sqrt(v / second) + EPSILON))


class ForTensorflow:
    """Variables and TensorFlow's own kernel, one op for each weight."""

    def __init__(self, weights: list[Any]) -> None:
        import tensorflow as tf

        self.tf = tf
        self.weights = [tf.Variable(weight) for weight in weights]
        self.momenta = [tf.Variable(zero, trainable=False) for zero in zeros(weights)]
        self.squares = [tf.Variable(zero, trainable=False) for zero in zeros(weights)]
        self.all = self.weights + self.momenta + self.squares
        self.first = tf.Variable(1.0, trainable=False)
        self.second = tf.Variable(1.0, trainable=False)

    def update(self, gradients: list[Any]) -> None:
        # Powers of the decays live in variables, so that a compiled step is traced once.
        tf = self.tf
        first = self.first.assign(self.first * DECAY)
        second = self.second.assign(self.second * SQUARE_DECAY)
        # The kernel adds epsilon before it corrects the second moment.
        epsilon = EPSILON * tf.sqrt(1 - second)
        for w, m, v, g in zip(self.weights, self.momenta, self.squares, gradients, strict=True):
            tf.raw_ops.ResourceApplyAdam(
                var=w.handle,
                m=m.handle,
                v=v.handle,
                beta1_power=first,
                beta2_power=second,
                lr=RATE,
                beta1=DECAY,
                beta2=SQUARE_DECAY,
                epsilon=epsilon,
                grad=g,
            )


def by_jax(state: Lists, gradients: list[Any], step: Any) -> Lists:
    """Pure code for `jax.jit`; `step` is an array."""
    import jax.numpy as jnp

    first, second = 1 - DECAY**step, 1 - SQUARE_DECAY**step
    weights, momenta, squares = state
    momenta = [DECAY * m + (1 - DECAY) * g for m, g in zip(momenta, gradients, strict=True)]
    squares = [
        SQUARE_DECAY * v + (1 - SQUARE_DECAY) * g * g
        for v, g in zip(squares, gradients, strict=True)
    ]
    weights = [
        w - RATE * (m / first) / (jnp.sqrt(v / second) + EPSILON)
        for w, m, v in zip(weights, momenta, squares, strict=True)
    ]
    return weights, momenta, squares


class ForTorch:
    """Parameters and torch's fused kernel for all weights at once."""

    def __init__(self, weights: list[Any]) -> None:
        import torch

        self.weights = [torch.from_numpy(weight.copy()).requires_grad_() for weight in weights]
        self.optimizer = torch.optim.Adam(
            self.weights, lr=RATE, betas=(DECAY, SQUARE_DECAY), eps=EPSILON, fused=True
        )

    def update(self, loss: Any) -> list[Any]:
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        state = self.optimizer.state
        return [
            *self.weights,
            *(state[weight]["exp_avg"] for weight in self.weights),
            *(state[weight]["exp_avg_sq"] for weight in self.weights),
        ]
