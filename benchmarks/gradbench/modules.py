"""Every evaluation of GradBench: its functions, what they read and what they report."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import gradtape as gt
from benchmarks.dialects import dialect
from benchmarks.gradbench import nested, objectives
from benchmarks.gradbench.hand import Hand, hand
from benchmarks.gradbench.protocol import Evaluated

XP = dialect("gradtape")
MODES = [a + b for a, b in itertools.product("rf", repeat=2)]
# The most rows of a determinant that are expanded at once: 8! products.
AT_ONCE = 8


def tensor(x: Any) -> Any:
    return gt.asarray(np.asarray(x, dtype="float64"))


def to_list(x: Any) -> Any:
    return np.asarray(x).tolist()


def evaluated(prepare: Any, function: Any, report: Any = to_list) -> Evaluated:
    """A function that is captured, and whose results are computed before the clock stops."""
    captured = gt.function(function)
    return Evaluated(prepare, lambda given: gt.evaluate(captured(*given)), report)


def gradient(function: Any, by: Any = 0) -> Any:
    return gt.grad(function, by)


def hello() -> dict[str, Evaluated]:
    def square(x: Any) -> Any:
        return x * x

    def prepare(x: Any) -> Any:
        return (tensor(x),)

    return {"square": evaluated(prepare, square), "double": evaluated(prepare, gradient(square))}


def gmm() -> dict[str, Evaluated]:
    def prepare(given: Any) -> Any:
        alpha, mu, q = (tensor(given[name]) for name in ("alpha", "mu", "q"))
        d, k = given["d"], given["k"]
        lower = tensor(np.reshape(given["l"], (k, d * (d - 1) // 2)))
        return alpha, mu, q, lower, tensor(given["x"]), given["m"], float(given["gamma"])

    def objective(*given: Any) -> Any:
        return objectives.gmm(XP, *given)

    def report(found: Any) -> Any:
        return {
            name: to_list(part) for name, part in zip(("alpha", "mu", "q", "l"), found, strict=True)
        }

    return {
        "objective": evaluated(prepare, objective),
        "jacobian": evaluated(prepare, gradient(objective, (0, 1, 2, 3)), report),
    }


def lse() -> dict[str, Evaluated]:
    def primal(x: Any) -> Any:
        return objectives.lse(XP, x)

    def prepare(given: Any) -> Any:
        return (tensor(given["x"]),)

    return {"primal": evaluated(prepare, primal), "gradient": evaluated(prepare, gradient(primal))}


def kmeans() -> dict[str, Evaluated]:
    def cost(centroids: Any, points: Any) -> Any:
        return objectives.kmeans(XP, centroids, points)

    def direction(centroids: Any, points: Any) -> Any:
        # The Hessian is diagonal, so its product with ones is its diagonal.
        slope, diagonal = XP.curvature(lambda c: cost(c, points))(centroids)
        return slope / diagonal

    def prepare(given: Any) -> Any:
        return tensor(given["centroids"]), tensor(given["points"])

    return {"cost": evaluated(prepare, cost), "dir": evaluated(prepare, direction)}


def ode() -> dict[str, Evaluated]:
    def primal(x: Any, steps: int) -> Any:
        def step(y: Any, _: Any) -> Any:
            return objectives.ode_step(XP, x, y, 2.0 / steps), None

        return gt.scan(step, gt.zeros(x.shape), length=steps)[0]

    def last(x: Any, steps: int) -> Any:
        return primal(x, steps)[-1]

    def prepare(given: Any) -> Any:
        return tensor(given["x"]), given["s"]

    return {"primal": evaluated(prepare, primal), "gradient": evaluated(prepare, gradient(last))}


def llsq() -> dict[str, Evaluated]:
    def primal(x: Any, t: Any) -> Any:
        return objectives.llsq(XP, x, t)

    def prepare(given: Any) -> Any:
        return tensor(given["x"]), tensor(np.linspace(-1.0, 1.0, given["n"]))

    return {"primal": evaluated(prepare, primal), "gradient": evaluated(prepare, gradient(primal))}


def lstm() -> dict[str, Evaluated]:
    def objective(*given: Any) -> Any:
        return objectives.lstm(XP, *given)

    def prepare(given: Any) -> Any:
        names = ("main_params", "extra_params", "state", "sequence")
        return tuple(tensor(given[name]) for name in names)

    def report(found: Any) -> Any:
        return [number for part in found for number in np.asarray(part).ravel().tolist()]

    return {
        "objective": evaluated(prepare, objective),
        "jacobian": evaluated(prepare, gradient(objective, (0, 1)), report),
    }


def ba() -> dict[str, Evaluated]:
    def prepare(given: Any) -> Any:
        n, m, p = given["n"], given["m"], given["p"]
        cameras, points = np.tile(given["cam"], (n, 1)), np.tile(given["x"], (m, 1))
        camera, point = np.arange(p) % n, np.arange(p) % m
        weights, features = np.full(p, given["w"]), np.tile(given["feat"], (p, 1))
        arrays = map(tensor, (cameras, points, weights, features))
        return *arrays, gt.asarray(camera), gt.asarray(point)

    def rows(cameras: Any, points: Any, weights: Any, camera: Any, point: Any) -> Any:
        return gt.concat([cameras[camera], points[point], weights[:, None]], axis=1)

    def objective(cameras: Any, points: Any, w: Any, features: Any, camera: Any, point: Any) -> Any:
        errors = objectives.ba(XP, rows(cameras, points, w, camera, point), features)
        return gt.reshape(errors, (-1,)), 1.0 - w * w

    def jacobian(cameras: Any, points: Any, w: Any, features: Any, camera: Any, point: Any) -> Any:
        """A sparse matrix in compressed rows: two rows of 15 for each sight, one for its weight."""
        all_rows = rows(cameras, points, w, camera, point)

        def error(row: Any, feature: Any) -> Any:
            return objectives.ba(XP, row, feature)

        blocks = gt.vmap(gt.jacobian(error))(all_rows, features)
        values = gt.concat([gt.reshape(blocks, (-1,)), -2.0 * w])
        sights = gt.arange(w.shape[0])
        of_camera = 11 * camera[:, None] + np.arange(11)
        of_point = 11 * cameras.shape[0] + 3 * point[:, None] + np.arange(3)
        of_weight = 11 * cameras.shape[0] + 3 * points.shape[0] + sights
        one = gt.concat([of_camera, of_point, of_weight[:, None]], axis=1)
        columns = gt.concat([gt.reshape(gt.stack([one, one], axis=1), (-1,)), of_weight])
        dense = 30 * w.shape[0]
        starts = gt.concat([15 * gt.arange(2 * w.shape[0]), dense + gt.arange(w.shape[0] + 1)])
        return starts, columns, values

    def errors(found: Any) -> Any:
        reprojection, weight = (np.asarray(part) for part in found)
        return {
            "reproj_error": {
                "elements": reprojection[:2].tolist(),
                "repeated": len(reprojection) // 2,
            },
            "w_err": {"element": float(weight[0]), "repeated": len(weight)},
        }

    def matrix(found: Any) -> Any:
        # The evaluation asks for the first 30 elements and the last.
        ends = (np.concatenate([np.asarray(p)[:30], np.asarray(p)[-1:]]).tolist() for p in found)
        return dict(zip(("rows", "cols", "vals"), ends, strict=True))

    return {
        "objective": evaluated(prepare, objective, errors),
        "jacobian": evaluated(prepare, jacobian, matrix),
    }


def ht() -> dict[str, Evaluated]:
    captured: dict[str, Any] = {}

    def prepare(given: Any) -> Any:
        barycentric = len(given["us"]) > 0
        model = Hand.read(given["data"], barycentric)
        us = tensor(np.reshape(given["us"], (-1, 2))) if barycentric else None

        def objective(theta: Any, us: Any) -> Any:
            return gt.reshape(hand(XP, model, theta, us), (-1,))

        def jacobian(theta: Any, us: Any) -> Any:
            if us is None:
                return gt.jacfwd(lambda theta: objective(theta, None))(theta)

            def moved(both: Any) -> Any:
                # All points' weights move together: each row depends on those of its point.
                return objective(both[2:], us + both[:2])

            return gt.jacfwd(moved)(gt.concat([gt.zeros(2), theta]))

        captured["objective"], captured["jacobian"] = map(gt.function, (objective, jacobian))
        return tensor(given["theta"]), us

    def run(name: str) -> Evaluated:
        return Evaluated(prepare, lambda given: gt.evaluate(captured[name](*given)), to_list)

    return {"objective": run("objective"), "jacobian": run("jacobian")}


def det() -> dict[str, Evaluated]:
    def primal(a: Any) -> Any:
        order = a.shape[0]
        if order <= AT_ONCE:
            return objectives.all_minors(XP, a, order)
        # One column of the first row after the other, so that memory holds one minor's terms.
        rest = gt.asarray(np.array([[k for k in range(order) if k != j] for j in range(order)]))

        def minor(columns: Any) -> Any:
            return primal(gt.take(a[1:], columns, axis=1))

        signs = np.where(np.arange(order) % 2, -1.0, 1.0)
        return gt.sum(a[0] * signs * gt.map(minor, rest))

    def prepare(given: Any) -> Any:
        return (tensor(np.reshape(given["A"], (given["ell"], given["ell"]))),)

    def report(found: Any) -> Any:
        return np.asarray(found).ravel().tolist()

    return {
        "primal": evaluated(prepare, primal),
        "gradient": evaluated(prepare, gradient(primal), report),
    }


def nested_modes(build: Any, name: str) -> dict[str, Evaluated]:
    def one(run: Any) -> Evaluated:
        return Evaluated(lambda given: given[name], lambda x: gt.evaluate(run(x)), to_list)

    return {mode: one(build(*mode)) for mode in MODES}


MODULES: dict[str, dict[str, Evaluated]] = {
    **{
        build.__name__: build() for build in (hello, gmm, lse, kmeans, ode, llsq, lstm, ba, ht, det)
    },
    "particle": nested_modes(nested.particle, "w"),
    "saddle": nested_modes(nested.saddle, "start"),
}
