"""Nonlinear regression on reference problems, to all the digits that are certified.

The data sets are those of NIST's Statistical Reference Datasets (nonlinear regression): measured
values, a model, certified parameters and the certified residual sum of squares, from starts that
are near and far. Run `python examples/nonlinear_regression.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares

import gradtape as gt


@dataclass(frozen=True)
class Problem:
    """One data set with its certified values."""

    name: str
    model: Callable[[Any, Any], Any]
    x: list[float]
    y: list[float]
    starts: tuple[list[float], ...]
    parameters: list[float]
    sum_of_squares: float


def fit(problem: Problem, start: list[float]) -> tuple[np.ndarray, float]:
    """Fit by least squares: the parameters and the residual sum of squares."""
    x, y = np.array(problem.x), np.array(problem.y)
    r = gt.residuals(lambda b: problem.model(b, x) - y)
    # Parameters differ in size by orders of magnitude, so columns of the Jacobian scale them.
    near = least_squares(
        r, start, jac=r.jac, x_scale="jac", xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=5000
    ).x

    # A sum of squares is flat at its minimum. The last digits come from a root of its gradient,
    # with every parameter scaled to one.
    def slope(scale: Any) -> Any:
        return gt.grad(lambda s: gt.sum((problem.model(s * near, x) - y) ** 2))(scale)

    found = gt.root(slope, np.ones_like(near), method="newton", tol=1e-14).numpy() * near
    return found, float(np.sum(r(found) ** 2))


def digits(found: Any, certified: Any) -> float:
    """The smallest number of significant digits that agree."""
    error = np.max(np.abs(np.subtract(found, certified)) / np.abs(certified))
    return float(-np.log10(max(error, 1e-16)))


PRESSURE = [
    77.6, 114.9, 141.1, 190.8, 239.9, 289.0, 332.8, 378.4, 434.8, 477.3, 536.8, 593.1, 689.1, 760.0,
]  # fmt: skip
VOLUME = [
    10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02, 44.82, 50.76, 55.05, 61.01, 66.40, 75.47,
    81.78,
]  # fmt: skip

PROBLEMS = [
    Problem(
        "Misra1a",
        lambda b, x: b[0] * (1.0 - gt.exp(-b[1] * x)),
        PRESSURE,
        VOLUME,
        ([500.0, 0.0001], [250.0, 0.0005]),
        [2.3894212918e02, 5.5015643181e-04],
        1.2455138894e-01,
    ),
    Problem(
        "Misra1b",
        lambda b, x: b[0] * (1.0 - (1.0 + b[1] * x / 2.0) ** -2.0),
        PRESSURE,
        VOLUME,
        ([500.0, 0.0001], [300.0, 0.0002]),
        [3.3799746163e02, 3.9039091287e-04],
        7.5464681533e-02,
    ),
    Problem(
        "Misra1c",
        lambda b, x: b[0] * (1.0 - (1.0 + 2.0 * b[1] * x) ** -0.5),
        PRESSURE,
        VOLUME,
        ([500.0, 0.0001], [600.0, 0.0002]),
        [6.3642725809e02, 2.0813627256e-04],
        4.0966836971e-02,
    ),
    Problem(
        "Misra1d",
        lambda b, x: b[0] * b[1] * x / (1.0 + b[1] * x),
        PRESSURE,
        VOLUME,
        ([500.0, 0.0001], [450.0, 0.0003]),
        [4.3736970754e02, 3.0227324449e-04],
        5.6419295283e-02,
    ),
    Problem(
        "DanWood",
        lambda b, x: b[0] * x ** b[1],
        [1.309, 1.471, 1.490, 1.565, 1.611, 1.680],
        [2.138, 3.421, 3.597, 4.340, 4.882, 5.660],
        ([1.0, 5.0], [0.7, 4.0]),
        [7.6886226176e-01, 3.8604055871e00],
        4.3173084083e-03,
    ),
    Problem(
        "BoxBOD",
        lambda b, x: b[0] * (1.0 - gt.exp(-b[1] * x)),
        [1.0, 2.0, 3.0, 5.0, 7.0, 10.0],
        [109.0, 149.0, 149.0, 191.0, 213.0, 224.0],
        ([1.0, 1.0], [100.0, 0.75]),
        [2.1380940889e02, 5.4723748542e-01],
        1.1680088766e03,
    ),
    Problem(
        "Rat42",
        lambda b, x: b[0] / (1.0 + gt.exp(b[1] - b[2] * x)),
        [9.0, 14.0, 21.0, 28.0, 42.0, 57.0, 63.0, 70.0, 79.0],
        [8.93, 10.80, 18.59, 22.33, 39.35, 56.11, 61.73, 64.62, 67.08],
        ([100.0, 1.0, 0.1], [75.0, 2.5, 0.07]),
        [7.2462237576e01, 2.6180768402e00, 6.7359200066e-02],
        8.0565229338e00,
    ),
    Problem(
        "Rat43",
        lambda b, x: b[0] / (1.0 + gt.exp(b[1] - b[2] * x)) ** (1.0 / b[3]),
        [float(n) for n in range(1, 16)],
        [
            16.08, 33.83, 65.80, 97.20, 191.55, 326.20, 386.87, 520.53, 590.03, 651.92, 724.93,
            699.56, 689.96, 637.56, 717.41,
        ],
        ([100.0, 10.0, 1.0, 1.0], [700.0, 5.0, 0.75, 1.3]),
        [6.9964151270e02, 5.2771253025e00, 7.5962938329e-01, 1.2792483859e00],
        8.7864049080e03,
    ),
    Problem(
        "MGH09",
        lambda b, x: b[0] * (x**2 + x * b[1]) / (x**2 + x * b[2] + b[3]),
        [4.0, 2.0, 1.0, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625],
        [
            0.1957, 0.1947, 0.1735, 0.16, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235, 0.0246,
        ],
        ([25.0, 39.0, 41.5, 39.0], [0.25, 0.39, 0.415, 0.39]),
        [1.9280693458e-01, 1.9128232873e-01, 1.2305650693e-01, 1.3606233068e-01],
        3.0750560385e-04,
    ),
    Problem(
        "MGH10",
        lambda b, x: b[0] * gt.exp(b[1] / (x + b[2])),
        [50.0 + 5.0 * n for n in range(16)],
        [
            34780.0, 28610.0, 23650.0, 19630.0, 16370.0, 13720.0, 11540.0, 9744.0, 8261.0, 7030.0,
            6005.0, 5147.0, 4427.0, 3820.0, 3307.0, 2872.0,
        ],
        ([2.0, 400000.0, 25000.0], [0.02, 4000.0, 250.0]),
        [5.6096364710e-03, 6.1813463463e03, 3.4522363462e02],
        8.7945855171e01,
    ),
    Problem(
        "Thurber",
        lambda b, x: (
            (b[0] + x * (b[1] + x * (b[2] + x * b[3]))) / (1.0 + x * (b[4] + x * (b[5] + x * b[6])))
        ),
        [
            -3.067, -2.981, -2.921, -2.912, -2.840, -2.797, -2.702, -2.699, -2.633, -2.481, -2.363,
            -2.322, -1.501, -1.460, -1.274, -1.212, -1.100, -1.046, -0.915, -0.714, -0.566, -0.545,
            -0.400, -0.309, -0.109, -0.103, 0.010, 0.119, 0.377, 0.790, 0.963, 1.006, 1.115, 1.572,
            1.841, 2.047, 2.200,
        ],
        [
            80.574, 84.248, 87.264, 87.195, 89.076, 89.608, 89.868, 90.101, 92.405, 95.854, 100.696,
            101.060, 401.672, 390.724, 567.534, 635.316, 733.054, 759.087, 894.206, 990.785,
            1090.109, 1080.914, 1122.643, 1178.351, 1260.531, 1273.514, 1288.339, 1327.543,
            1353.863, 1414.509, 1425.208, 1421.384, 1442.962, 1464.350, 1468.705, 1447.894,
            1457.628,
        ],
        (
            [1000.0, 1000.0, 400.0, 40.0, 0.7, 0.3, 0.03],
            [1300.0, 1500.0, 500.0, 75.0, 1.0, 0.4, 0.05],
        ),
        [
            1.2881396800e03, 1.4910792535e03, 5.8323836877e02, 7.5416644291e01, 9.6629502864e-01,
            3.9797285797e-01, 4.9727297349e-02,
        ],
        5.6427082397e03,
    ),
    Problem(
        "Eckerle4",
        lambda b, x: b[0] / b[1] * gt.exp(-0.5 * ((x - b[2]) / b[1]) ** 2),
        [
            400.0, 405.0, 410.0, 415.0, 420.0, 425.0, 430.0, 435.0, 436.5, 438.0, 439.5, 441.0,
            442.5, 444.0, 445.5, 447.0, 448.5, 450.0, 451.5, 453.0, 454.5, 456.0, 457.5, 459.0,
            460.5, 462.0, 463.5, 465.0, 470.0, 475.0, 480.0, 485.0, 490.0, 495.0, 500.0,
        ],
        [
            0.0001575, 0.0001699, 0.0002350, 0.0003102, 0.0004917, 0.0008710, 0.0017418, 0.0046400,
            0.0065895, 0.0097302, 0.0149002, 0.0237310, 0.0401683, 0.0712559, 0.1264458, 0.2073413,
            0.2902366, 0.3445623, 0.3698049, 0.3668534, 0.3106727, 0.2078154, 0.1164354, 0.0616764,
            0.0337200, 0.0194023, 0.0117831, 0.0074357, 0.0022732, 0.0008800, 0.0004579, 0.0002345,
            0.0001586, 0.0001143, 0.0000710,
        ],
        ([1.0, 10.0, 500.0], [1.5, 5.0, 450.0]),
        [1.5543827178e00, 4.0888321754e00, 4.5154121844e02],
        1.4635887487e-03,
    ),
    Problem(
        "Lanczos3",
        lambda b, x: (
            b[0] * gt.exp(-b[1] * x) + b[2] * gt.exp(-b[3] * x) + b[4] * gt.exp(-b[5] * x)
        ),
        [0.05 * n for n in range(24)],
        [
            2.5134, 2.0443, 1.6684, 1.3664, 1.1232, 0.9269, 0.7679, 0.6389, 0.5338, 0.4479, 0.3776,
            0.3197, 0.2720, 0.2325, 0.1997, 0.1723, 0.1493, 0.1301, 0.1138, 0.1000, 0.0883, 0.0783,
            0.0698, 0.0624,
        ],
        ([1.2, 0.3, 5.6, 5.5, 6.5, 7.6], [0.5, 0.7, 3.6, 4.2, 4.0, 6.3]),
        [
            8.6816414977e-02, 9.5498101505e-01, 8.4400777463e-01, 2.9515951832e00, 1.5825685901e00,
            4.9863565084e00,
        ],
        1.6117193594e-08,
    ),
]  # fmt: skip


def main() -> None:
    print("data set   start   digits of the parameters   digits of the sum of squares")
    for problem in PROBLEMS:
        for number, start in enumerate(problem.starts, 1):
            found, left = fit(problem, start)
            good = digits(found, problem.parameters)
            print(
                f"{problem.name:10} {number:5}   {good:24.1f}   "
                f"{digits(left, problem.sum_of_squares):28.1f}"
            )


if __name__ == "__main__":
    main()
