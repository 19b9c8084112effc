"""Two functions of SciPy as ops of gradtape: Struve functions and the Voigt profile.

Each is declared once, with its derivatives written with other ops, and is then differentiable to
any order, mapped by `gt.vmap` and part of compiled programs. The exit status is 1 if one is wrong.
"""

import math
import sys

import numpy as np
from scipy import special

import gradtape as gt


def struve_slope(y, x, v):
    """dH_v/dx, by H_{v-1} and H_{v+1}."""
    constant = 2.0**-v / (math.sqrt(math.pi) * math.gamma(v + 1.5))
    return 0.5 * (struve(x, v=v - 1) - struve(x, v=v + 1) + constant * x**v)


struve = gt.extend.elementwise(
    "struve",
    numpy=lambda x, v: special.struve(v, x),
    partials=[struve_slope],
    params={"v": 0},
    accepts="real",
    domains=[(0.5, 3.0)],
    dtypes=("float64", "float32"),
    sample_params=[{"v": 0}, {"v": 2}],
    expensive=True,
    doc="Struve function of order v.",
)

# The Faddeeva function w(z): its derivative is 2i/√π - 2 z w(z).
faddeeva = gt.extend.elementwise(
    "faddeeva",
    numpy=special.wofz,
    partials=[lambda y, z: 2j / math.sqrt(math.pi) - 2.0 * z * y],
    accepts="inexact",
    domains=[(-1.0, 1.0)],
    dtypes=("complex128",),
    expensive=True,
    doc="Faddeeva function of a complex number.",
)


def voigt_profile(x, sigma, gamma):
    """A Gaussian of width sigma convolved with a Lorentzian of width gamma, by the op above."""
    z = (x + 1j * gamma) / (sigma * math.sqrt(2.0))
    return gt.real(faddeeva(z)) / (sigma * math.sqrt(2.0 * math.pi))


def fit() -> float:
    """Fit the widths of a line to noisy counts; gives the largest error of the widths."""
    generator = np.random.default_rng(0)
    frequencies = np.linspace(-4.0, 4.0, 400)
    exact = np.array([0.7, 0.4])
    counts = special.voigt_profile(frequencies, *exact) + 1e-4 * generator.normal(size=400)
    widths = gt.asarray([0.8, 0.5])

    @gt.function
    def step(widths):
        def residuals(w):
            return voigt_profile(frequencies, w[0], w[1]) - counts

        slopes = gt.jacobian(residuals)(widths)
        normal = gt.matrix_transpose(slopes) @ slopes
        return widths - gt.linalg.solve(normal, gt.matrix_transpose(slopes) @ residuals(widths))

    for _ in range(8):
        widths = step(widths)
    return float(np.max(np.abs(widths.numpy() - exact)))


def main() -> int:
    for function in (struve, faddeeva):
        print(gt.extend.check(function))
    print("third derivative of H_0 at 1.5:", float(gt.grad(gt.grad(gt.grad(struve)))(1.5)))
    error = fit()
    print(f"widths of the Voigt line found within {error:.1e}")
    return 0 if error < 1e-2 else 1


if __name__ == "__main__":
    sys.exit(main())
