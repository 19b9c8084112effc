"""Generative models: a variational autoencoder, a normalising flow, two adversaries."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.rows import KINKED, workload
from benchmarks.workload import Arrays
from benchmarks.workloads.science.agents import dense, descent, layers


def pictures(batch: int, pixels: int, hidden: int, latent: int) -> Arrays:
    rng = np.random.default_rng(214)
    encoder = layers(rng, pixels, hidden, 2 * latent)
    decoder = {f"d{name}": value for name, value in layers(rng, latent, hidden, pixels).items()}
    return {
        **encoder,
        **decoder,
        "image": (rng.uniform(size=(batch, pixels)) < 0.3).astype("float32"),
        "noise": rng.standard_normal((batch, latent)).astype("float32"),
    }


def autoencoder(xp: Any, *given: Any) -> Any:
    """The negative evidence bound of a variational autoencoder."""
    encoder, decoder, image, noise = given[:4], given[4:8], given[8], given[9]
    latent = noise.shape[1]
    code = dense(xp, image, *encoder)
    mean, log_variance = code[:, :latent], code[:, latent:]
    score = dense(xp, mean + xp.exp(0.5 * log_variance) * noise, *decoder)
    missed = xp.sum(xp.softplus(score) - image * score, axis=1)
    apart = 0.5 * xp.sum(mean**2 + xp.exp(log_variance) - 1.0 - log_variance, axis=1)
    return xp.mean(missed + apart)


def couplings(batch: int, features: int, hidden: int, count: int) -> Arrays:
    rng = np.random.default_rng(215)
    half = features // 2

    def drawn(*shape: int) -> Any:
        return (rng.standard_normal(shape) * 0.3 / shape[1] ** 0.5).astype("float32")

    return {
        "w1": drawn(count, half, hidden),
        "b1": np.zeros((count, hidden), "float32"),
        "w2": drawn(count, hidden, features),
        "b2": np.zeros((count, features), "float32"),
        "x": rng.standard_normal((batch, features)).astype("float32"),
    }


def flow(xp: Any, w1: Any, b1: Any, w2: Any, b2: Any, x: Any) -> Any:
    """The negative log likelihood of a normalising flow of affine couplings."""
    half = x.shape[1] // 2
    stretch = 0.0
    for place in range(w1.shape[0]):
        left, right = x[:, :half], x[:, half:]
        both = xp.tanh(left @ w1[place] + b1[place]) @ w2[place] + b2[place]
        scale, shift = xp.tanh(both[:, :half]), both[:, half:]
        x = xp.concat([right * xp.exp(scale) + shift, left], axis=1)
        stretch = stretch + xp.sum(scale, axis=1)
    return xp.mean(0.5 * xp.sum(x * x, axis=1) - stretch)


def adversaries(batch: int, width: int) -> Arrays:
    """Weights of a generator and of a discriminator of pictures of 16 × 16."""
    rng = np.random.default_rng(216)

    def drawn(*shape: int, inputs: int) -> Any:
        return (rng.standard_normal(shape) / inputs**0.5).astype("float32")

    return {
        "g0": drawn(32, 16 * 2 * width, inputs=32),
        "g1": drawn(4, 4, width, 2 * width, inputs=8 * width),
        "g2": drawn(4, 4, 1, width, inputs=4 * width),
        "d0": drawn(4, 4, 1, width, inputs=16),
        "d1": drawn(4, 4, width, 2 * width, inputs=16 * width),
        "d2": drawn(16 * 2 * width, 1, inputs=32 * width),
        "latent": rng.standard_normal((batch, 32)).astype("float32"),
        "real": np.tanh(rng.standard_normal((batch, 16, 16, 1))).astype("float32"),
    }


def generated(xp: Any, g0: Any, g1: Any, g2: Any, latent: Any) -> Any:
    x = xp.relu(xp.reshape(latent @ g0, (latent.shape[0], 4, 4, -1)))
    x = xp.relu(xp.transposed(x, g1, 2))
    return xp.tanh(xp.transposed(x, g2, 2))


def judged(xp: Any, d0: Any, d1: Any, d2: Any, image: Any) -> Any:
    for w in (d0, d1):
        image = xp.strided(image, w, 2)
        image = xp.where(image > 0.0, image, 0.2 * image)
    return xp.reshape(image, (image.shape[0], -1)) @ d2


def generator(
    xp: Any, g0: Any, g1: Any, g2: Any, d0: Any, d1: Any, d2: Any, latent: Any, real: Any
) -> Any:
    """The loss of the generator of a DCGAN."""
    return xp.mean(xp.softplus(-judged(xp, d0, d1, d2, generated(xp, g0, g1, g2, latent))))


def discriminator(
    xp: Any, g0: Any, g1: Any, g2: Any, d0: Any, d1: Any, d2: Any, latent: Any, real: Any
) -> Any:
    """The loss of the discriminator of a DCGAN."""
    fake = xp.stop_gradient(generated(xp, g0, g1, g2, latent))
    return xp.mean(
        xp.softplus(-judged(xp, d0, d1, d2, real)) + xp.softplus(judged(xp, d0, d1, d2, fake))
    )


WORKLOADS = tuple(
    workload(row)
    for row in (
        descent(
            "autoencoder",
            "variational autoencoder, 64 images of 784 pixels, one step",
            partial(pictures, 64, 784, 200, 20),
            autoencoder,
            (0, 1, 2, 3, 4, 5, 6, 7),
            partial(pictures, 3, 8, 5, 2),
        ),
        descent(
            "flow",
            "normalising flow, 6 couplings, 256 examples of 8 features, one step",
            partial(couplings, 256, 8, 32, 6),
            flow,
            (0, 1, 2, 3),
            partial(couplings, 4, 4, 3, 2),
        ),
        descent(
            "gan-generator",
            "DCGAN, the generator's step on 16 images of 16 × 16",
            partial(adversaries, 16, 16),
            generator,
            (0, 1, 2),
            partial(adversaries, 2, 2),
            step=KINKED,
        ),
        descent(
            "gan-discriminator",
            "DCGAN, the discriminator's step on 16 images of 16 × 16",
            partial(adversaries, 16, 16),
            discriminator,
            (3, 4, 5),
            partial(adversaries, 2, 2),
            step=KINKED,
        ),
    )
)
