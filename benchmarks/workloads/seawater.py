"""Density of sea water by temperature, salinity and pressure, and its gradient by all three.

About 100 element-wise terms in float64, of the kind that ocean models evaluate in every cell: a
polynomial for surface density, another for stiffness, and pressure divided by stiffness. The
coefficients are of the usual size and otherwise invented.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.workload import Arrays, Call, Limit, Workload, Wrap

SIZES = {"seawater-small": 4096, "seawater": 1 << 20}


def density(sqrt: Callable[[Any], Any], t: Any, s: Any, p: Any) -> Any:
    """Kilograms per cubic metre, for degrees Celsius, parts per thousand and bar."""
    root = sqrt(s)
    fresh = 999.84 + t * (6.79e-2 + t * (-9.09e-3 + t * (1.003e-4 + t * (-1.12e-6 + t * 6.53e-9))))
    haline = 0.8245 + t * (-4.09e-3 + t * (7.64e-5 + t * (-8.24e-7 + t * 5.38e-9)))
    mixed = -5.72e-3 + t * (1.02e-4 + t * (-1.65e-6 + t * 3.1e-9))
    surface = fresh + s * (haline + root * mixed + s * (4.83e-4 + t * 1.1e-7))

    # Stiffness at the surface, then its change with pressure and with pressure squared.
    stiff = 19652.2 + t * (148.42 + t * (-2.327 + t * (1.36e-2 + t * (-5.15e-5 + t * 1.9e-8))))
    stiff = stiff + s * (54.67 + t * (-0.603 + t * (1.09e-2 + t * -6.16e-5)))
    stiff = stiff + s * root * (7.94e-2 + t * (1.64e-2 + t * -5.3e-4))
    linear = 3.239 + t * (1.43e-3 + t * (1.16e-4 + t * -5.77e-7))
    linear = linear + s * (2.283e-3 + t * (-1.09e-5 + t * -1.6e-6) + root * 1.91e-4)
    curved = 8.5e-5 + t * (-6.12e-6 + t * 5.27e-8) + s * (-9.9e-7 + t * (2.08e-8 + t * 9.1e-10))
    stiff = stiff + p * (linear + p * curved)

    squeezed = p / stiff
    packing = 1.0 / (1.0 - squeezed)
    # Warming and freshening act more weakly where the water is already packed.
    damping = 1.0 + squeezed * (0.021 + t * (3.4e-4 - s * 2.6e-6))
    return surface * packing / damping


def inputs(size: int) -> Arrays:
    rng = np.random.default_rng(7)
    return {
        "t": rng.uniform(-2, 30, size),
        "s": rng.uniform(30, 40, size),
        "p": rng.uniform(0, 500, size),
    }


def reference(inputs: Arrays) -> list[np.ndarray]:
    """The gradient by a complex step in each input: exact to rounding, without derivative rules."""
    values, step = list(inputs.values()), 1e-30
    found = []
    for place in range(3):
        moved: list[Any] = list(values)
        moved[place] = values[place] + 1j * step
        found.append(density(np.sqrt, *moved).imag / step)
    return found


def gradtape(inputs: Arrays, wrap: Wrap) -> Call:
    import gradtape as gt

    sources = [gt.asarray(array) for array in inputs.values()]

    @wrap
    def call(*sources: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(sources)
            y = density(gt.sqrt, *sources)
        return tape.gradient(y, sources)

    return lambda: call(*sources)


def tensorflow(inputs: Arrays, wrap: Wrap) -> Call:
    import tensorflow as tf

    sources = [tf.constant(array) for array in inputs.values()]

    @wrap
    def gradient(*sources: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(sources)
            y = density(tf.sqrt, *sources)
        return tape.gradient(y, sources)

    return lambda: gradient(*sources)


def jax(inputs: Arrays, wrap: Wrap) -> Call:
    import jax
    import jax.numpy as jnp

    sources = [jnp.asarray(array) for array in inputs.values()]
    gradient = wrap(jax.grad(lambda t, s, p: jnp.sum(density(jnp.sqrt, t, s, p)), (0, 1, 2)))
    return lambda: gradient(*sources)


def torch(inputs: Arrays, wrap: Wrap) -> Call:
    import torch

    sources = [torch.from_numpy(array).requires_grad_() for array in inputs.values()]
    function = wrap(lambda t, s, p: density(torch.sqrt, t, s, p).sum())
    return lambda: torch.autograd.grad(function(*sources), sources)


def autograd(inputs: Arrays, wrap: Wrap) -> Call:
    import autograd
    import autograd.numpy as anp

    gradient = autograd.elementwise_grad(lambda t, s, p: density(anp.sqrt, t, s, p), (0, 1, 2))
    return lambda: gradient(*inputs.values())


WORKLOADS = tuple(
    Workload(
        name=name,
        title=f"gradient of sea water density (100 terms), n = {size:,} float64",
        dtype="float64",
        inputs=partial(inputs, size),
        reference=reference,
        builds=(gradtape, tensorflow, jax, torch, autograd),
        limit=Limit(copied=3 * 8 * size),
    )
    for name, size in SIZES.items()
)
