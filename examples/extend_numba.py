"""A Numba kernel as an op of gradtape: exponential smoothing along the last axis.

y[t] = decay * y[t - 1] + x[t] is a loop that NumPy cannot write without Python. It is linear in x,
so its transpose, the same loop run backwards, is all that derivatives need. Needs `numba`.
"""

import sys

import numpy as np

import gradtape as gt

try:
    from numba import njit
except ImportError:
    njit = None


def loop(x, y, decay):
    for row in range(x.shape[0]):
        carried = 0.0
        for t in range(x.shape[1]):
            carried = decay * carried + x[row, t]
            y[row, t] = carried


def declare():
    """Declare the op; return the function that records it."""
    compiled = njit(loop)

    def kernel(x, decay):
        rows = np.ascontiguousarray(x).reshape(-1, max(x.shape[-1], 1))
        y = np.empty_like(rows)
        compiled(rows, y, decay)
        return y.reshape(x.shape)

    smooth = gt.extend.op(
        "smooth",
        spec=lambda x, decay: x,
        numpy=kernel,
        vjp=lambda index, g, y, inputs, decay: gt.flip(
            smooth(gt.flip(g, axis=-1), decay=decay), axis=-1
        ),
        batch="leading",
        promote="float",
        params={"decay": 0.9},
        samples=[
            gt.extend.Sample((np.array([1.0, -2.0, 0.5]),)),
            gt.extend.Sample((np.arange(6.0).reshape(2, 3),), {"decay": 0.5}),
            gt.extend.Sample((np.zeros((2, 0)),)),
        ],
        doc="Exponential smoothing along the last axis.",
    )
    return smooth


def main() -> int:
    if njit is None:
        print("numba is not installed: pip install numba")
        return 0
    smooth = declare()
    print(gt.extend.check(smooth))
    signal = np.sin(np.linspace(0.0, 20.0, 1000)) + 0.1

    @gt.function
    def loss_and_gradient(x):
        return gt.value_and_grad(lambda x: gt.mean(smooth(x, decay=0.8) ** 2))(x)

    loss, gradient = loss_and_gradient(gt.asarray(signal))
    print(f"loss {float(loss):.6f}, gradient of norm {float(gt.norm(gradient)):.6f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
