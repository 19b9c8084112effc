"""Regression with groups and with quantiles, and images from their projections."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from benchmarks.rows import KINKED, Row, workload
from benchmarks.workload import Arrays

LIBRARIES = ("gradtape", "jax", "torch")


def homes(count: int, counties: int) -> Arrays:
    rng = np.random.default_rng(221)
    return {
        "level": np.array([1.0, -0.5, 0.3]),
        "log_scale": np.array([-1.0, -1.0, -0.5]),
        "intercept": rng.standard_normal(counties),
        "slope": rng.standard_normal(counties),
        "uranium": rng.standard_normal(counties),
        "county": rng.integers(0, counties, count),
        "floor": rng.integers(0, 2, count).astype("float64"),
        "y": rng.standard_normal(count) + 1.0,
    }


def hierarchical(
    xp: Any,
    level: Any,
    log_scale: Any,
    intercept: Any,
    slope: Any,
    uranium: Any,
    county: Any,
    floor: Any,
    y: Any,
) -> Any:
    """The negative log posterior of radon in homes, with effects of their counties."""
    scale = xp.exp(log_scale)
    a = level[0] + level[2] * uranium + scale[0] * intercept
    b = level[1] + scale[1] * slope
    error = (y - a[county] - b[county] * floor) / scale[2]
    prior = xp.sum(intercept**2) + xp.sum(slope**2) + xp.sum(level**2) + xp.sum(scale**2)
    return 0.5 * (xp.sum(error**2) + prior) + y.shape[0] * log_scale[2] - xp.sum(log_scale)


def schools(count: int, groups: int, features: int) -> Arrays:
    rng = np.random.default_rng(222)
    return {
        "weights": rng.standard_normal(features),
        "log_scale": np.array([-0.5, 0.2]),
        "x": rng.standard_normal((count, features)),
        "y": rng.standard_normal(count),
        "group": rng.integers(0, groups, count),
        "ones": np.ones(groups),
    }


def mixed_effects(
    xp: Any, weights: Any, log_scale: Any, x: Any, y: Any, group: Any, ones: Any
) -> Any:
    """The negative log likelihood with the effects of the groups integrated out."""
    groups = ones.shape[0]
    within, between = xp.exp(2.0 * log_scale[1]), xp.exp(2.0 * log_scale[0])
    error = y - x @ weights
    size = xp.segment_sum(xp.ones_like(y), group, groups)
    total = xp.segment_sum(error, group, groups)
    square = xp.segment_sum(error**2, group, groups)
    spread = within + size * between
    return 0.5 * xp.sum(
        (square - between * total**2 / spread) / within
        + xp.log(spread)
        + (size - 1.0) * xp.log(within)
        + size * math.log(2 * math.pi)
    )


def incomes(count: int, features: int) -> Arrays:
    rng = np.random.default_rng(223)
    x = rng.standard_normal((count, features))
    return {
        "weights": rng.standard_normal((features, 5)) * 0.1,
        "x": x,
        "y": x.sum(1) + rng.standard_t(3, count),
        "level": np.array([0.1, 0.25, 0.5, 0.75, 0.9]),
    }


def quantiles(xp: Any, weights: Any, x: Any, y: Any, level: Any) -> Any:
    """Five quantile regressions; errors are scaled by their median absolute deviation."""
    error = y[:, None] - x @ weights
    apart = xp.abs(error - xp.median(error, axis=0))
    scale = xp.median(apart, axis=0)
    return xp.mean(xp.maximum(level * error, (level - 1.0) * error) / scale)


def blurred(side: int, width: int) -> Arrays:
    rng = np.random.default_rng(224)
    line = np.exp(-0.5 * np.linspace(-2, 2, width) ** 2)
    spread = np.outer(line, line) / line.sum() ** 2
    return {
        "image": np.full((1, side, side, 1), 0.5, "float32"),
        "seen": rng.uniform(0.2, 1.0, (1, side, side, 1)).astype("float32"),
        "spread": spread[:, :, None, None].astype("float32"),
    }


def deconvolution(xp: Any, image: Any, seen: Any, spread: Any) -> Any:
    """Ten rounds of Richardson and Lucy; the blur is symmetric."""

    def rounds(_: Any, image: Any) -> Any:
        blurred = xp.strided(image, spread, 1)
        return image * xp.strided(seen / blurred, spread, 1)

    return xp.fori_loop(0, 10, rounds, image)


def denoising(xp: Any, image: Any, seen: Any, spread: Any) -> Any:
    """The misfit of a blurred image with a smooth total variation."""
    error = xp.strided(image, spread, 1) - seen
    down = image[:, 1:, :-1] - image[:, :-1, :-1]
    right = image[:, :-1, 1:] - image[:, :-1, :-1]
    variation = xp.sum(xp.sqrt(down**2 + right**2 + 1e-3))
    return xp.sum(error**2) + 0.02 * variation


def scanned(side: int, angles: int) -> Arrays:
    rng = np.random.default_rng(225)
    return {
        "image": rng.uniform(size=(side, side)),
        "angle": np.linspace(0, np.pi, angles, endpoint=False),
        "seen": rng.uniform(size=(angles, side)) * side / 2,
    }


def tomography(xp: Any, image: Any, angle: Any, seen: Any) -> Any:
    """The misfit of projections of an image, which is turned by interpolation."""
    side = image.shape[0]
    middle = (side - 1) / 2.0
    line = xp.arange(side, dtype="float64") - middle
    c, s = xp.cos(angle)[:, None, None], xp.sin(angle)[:, None, None]
    across = c * line - s * line[:, None] + middle
    down = s * line + c * line[:, None] + middle
    inside = (across > 0.0) & (across < side - 1.0) & (down > 0.0) & (down < side - 1.0)
    across, down = xp.clip(across, 0.0, side - 1.001), xp.clip(down, 0.0, side - 1.001)
    left, top = xp.floor(across), xp.floor(down)
    across, down = across - left, down - top
    at = xp.integers(top) * side + xp.integers(left)
    flat = xp.reshape(image, (-1,))
    value = (1.0 - down) * ((1.0 - across) * flat[at] + across * flat[at + 1])
    value = value + down * ((1.0 - across) * flat[at + side] + across * flat[at + side + 1])
    return xp.mean((xp.sum(xp.where(inside, value, 0.0), axis=1) - seen) ** 2)


WORKLOADS = tuple(
    workload(row)
    for row in (
        Row(
            "hierarchical",
            "hierarchical regression of 919 homes in 85 counties, gradient of the posterior",
            partial(homes, 919, 85),
            hierarchical,
            "gradient",
            (0, 1, 2, 3),
            libraries=LIBRARIES,
            tiny=partial(homes, 9, 3),
        ),
        Row(
            "mixed-effects",
            "mixed effects of 2,000 pupils in 60 schools, gradient of the likelihood",
            partial(schools, 2000, 60, 6),
            mixed_effects,
            "gradient",
            (0, 1),
            libraries=LIBRARIES,
            tiny=partial(schools, 9, 3, 2),
        ),
        Row(
            "quantiles",
            "quantile regression of 1,000 × 8 at 5 levels with robust scales, gradient",
            partial(incomes, 1000, 8),
            quantiles,
            "gradient",
            libraries=LIBRARIES,
            step=KINKED,
            tolerance=1e-4,
            tiny=partial(incomes, 9, 2),
        ),
        Row(
            "deconvolution",
            "deconvolution of 64 × 64 by 9 × 9, 10 rounds of Richardson and Lucy float32",
            partial(blurred, 64, 9),
            deconvolution,
            dtype="float32",
            tolerance=1e-4,
            libraries=LIBRARIES,
            tiny=partial(blurred, 6, 3),
        ),
        Row(
            "denoising",
            "deblurring of 64 × 64 with total variation float32, gradient by the image",
            partial(blurred, 64, 9),
            denoising,
            "gradient",
            dtype="float32",
            tolerance=1e-3,
            libraries=LIBRARIES,
            tiny=partial(blurred, 6, 3),
        ),
        Row(
            "tomography",
            "tomography of 48 × 48 at 24 angles, gradient by the image",
            partial(scanned, 48, 24),
            tomography,
            "gradient",
            libraries=LIBRARIES,
            tiny=partial(scanned, 5, 3),
        ),
    )
)
