"""A gradient, a Hessian-vector product and a short training run.

Run it with `make demo`. Every result is compared with a value known in closed form or with a
threshold; the exit status is 1 if a comparison fails.
"""

import sys
import time

import numpy as np

import gradtape as gt

STEPS = 400
LEARNING_RATE = 0.2
MOMENTUM = 0.9


def check(what: str, passed: bool, detail: str) -> bool:
    print(f"  [{'ok' if passed else 'FAILED'}] {what}: {detail}")
    return passed


def progress(done: int, total: int, note: str) -> None:
    """Draw a bar on stderr; where that is not a terminal, write one line per quarter."""
    if sys.stderr.isatty():
        filled = 30 * done // total
        bar = "#" * filled + "." * (30 - filled)
        end = "\n" if done == total else ""
        print(f"\r  [{bar}] {done}/{total} {note}", end=end, file=sys.stderr, flush=True)
    elif 4 * done // total != 4 * (done - 1) // total:
        print(f"  {done}/{total} {note}", file=sys.stderr, flush=True)


def gradient() -> bool:
    print("Gradient of sum(sin(x) exp(-x²/2)), 1000 points")
    points = np.linspace(-3.0, 3.0, 1000)
    x = gt.asarray(points)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.sum(gt.sin(x) * gt.exp(-0.5 * x * x))
    found = tape.gradient(y, x).numpy()
    exact = (np.cos(points) - points * np.sin(points)) * np.exp(-0.5 * points**2)
    error = np.max(np.abs(found - exact))
    return check("tape against the closed form", error < 1e-12, f"largest error {error:.1e}")


def hessian_vector_product() -> bool:
    print("Hessian-vector product of log(sum(exp(x))), forward over reverse, 1000 unknowns")
    generator = np.random.default_rng(0)
    point, direction = generator.normal(size=(2, 1000))

    def log_sum_exp(x):
        return gt.log(gt.sum(gt.exp(x)))

    slope, product = gt.jvp(gt.grad(log_sum_exp), (gt.asarray(point),), (gt.asarray(direction),))
    softmax = np.exp(point) / np.sum(np.exp(point))
    exact = softmax * direction - softmax * np.dot(softmax, direction)
    slope_error = np.max(np.abs(slope.numpy() - softmax))
    product_error = np.max(np.abs(product.numpy() - exact))
    passed = check(
        "gradient is softmax(x)", slope_error < 1e-14, f"largest error {slope_error:.1e}"
    )
    return passed & check(
        "product is (diag(p) - p pᵀ) v", product_error < 1e-14, f"largest error {product_error:.1e}"
    )


def two_moons(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Two interleaved half circles with noise; labels are -1 and +1."""
    generator = np.random.default_rng(1)
    angle = generator.uniform(0.0, np.pi, size=count)
    label = np.where(np.arange(count) % 2 == 0, 1.0, -1.0)
    points = np.stack([label * np.cos(angle) + 0.5 * (1 - label), label * np.sin(angle)], axis=1)
    points[:, 1] += 0.25 * (1 - label)
    return points + 0.1 * generator.normal(size=points.shape), label[:, np.newaxis]


def training() -> bool:
    print(f"Training 2-32-1 tanh network on two moons, 500 points, {STEPS} steps of SGD + momentum")
    generator = np.random.default_rng(2)
    points, labels = two_moons(500)
    x, label = gt.asarray(points), gt.asarray(labels)
    weights = [
        gt.Variable(generator.normal(size=(2, 32)), name="hidden_weight"),
        gt.Variable(np.zeros(32), name="hidden_bias"),
        gt.Variable(generator.normal(size=(32, 1)) / np.sqrt(32), name="output_weight"),
        gt.Variable(np.zeros(1), name="output_bias"),
    ]
    velocities = [gt.Variable(np.zeros(w.shape), trainable=False) for w in weights]

    def scores():
        hidden_weight, hidden_bias, output_weight, output_bias = weights
        return gt.tanh(x @ hidden_weight + hidden_bias) @ output_weight + output_bias

    def train_step():
        with gt.GradientTape() as tape:
            loss = gt.mean(gt.log1p(gt.exp(-label * scores())))
        for weight, velocity, slope in zip(
            weights, velocities, tape.gradient(loss, weights), strict=True
        ):
            velocity.assign(MOMENTUM * velocity.value + slope)
            weight.assign_sub(LEARNING_RATE * velocity.value)
        return loss

    start = time.perf_counter()
    first = last = float(train_step())
    for step in range(2, STEPS + 1):
        loss = train_step()
        # Observing the loss computes it; between observations a step is only recorded.
        if step % 10 == 0 or step == STEPS:
            last = float(loss)
        progress(step, STEPS, f"loss {last:.4f}")
    correct = np.mean(np.sign(scores().numpy()) == labels)
    seconds = time.perf_counter() - start
    print(f"  {STEPS} steps in {seconds:.2f} s: {STEPS / seconds:.0f} steps/s")
    passed = check("loss fell tenfold", last < 0.1 * first, f"{first:.4f} to {last:.4f}")
    return passed & check("accuracy above 98 %", correct > 0.98, f"{100 * correct:.1f} %")


def recording_cost() -> None:
    print("Recording 50 rounds of sin(y) * 0.9 + x on 4 elements (nothing is computed)")
    x = gt.asarray(np.linspace(0.0, 1.0, 4))
    best = float("inf")
    for _ in range(50):
        start = time.perf_counter()
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(50):
                y = gt.sin(y) * 0.9 + x
        best = min(best, time.perf_counter() - start)
    print(f"  {1e6 * best / 150:.2f} µs per op, best of 50")


def main() -> int:
    start = time.perf_counter()
    results = [gradient(), hessian_vector_product(), training()]
    recording_cost()
    verdict = "all checks passed" if all(results) else "SOME CHECKS FAILED"
    print(f"Done in {time.perf_counter() - start:.1f} s: {verdict}.")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
