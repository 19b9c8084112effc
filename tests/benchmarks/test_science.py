"""The programs of scientists at tiny sizes: gradtape's forms agree with the reference in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks.array_functions import python_scan
from benchmarks.dialects import dialect
from benchmarks.forms import adaptor
from benchmarks.server import compare, leaves
from benchmarks.workload import Workload
from benchmarks.workloads import GROUPS, WORKLOADS, find

import gradtape as gt

SCIENCE = [workload for workload in WORKLOADS if workload.group == "science"]
CALLS = 3  # the first runs in Python; later ones may be replayed


def checked(workload: Workload, found: Any, expected: list[Any], array: Any) -> dict[str, object]:
    assert workload.judge is None or workload.tiny is not None
    arrays = [array(leaf) for leaf in leaves(found)]
    if workload.judge is not None:
        arrays, _ = workload.judge(workload.tiny(), arrays)  # type: ignore[misc]
    return compare(arrays, expected, workload, {workload.dtype})


@pytest.mark.parametrize("workload", SCIENCE, ids=lambda workload: workload.name)
def test_gradtape_agrees_with_numpy(workload: Workload) -> None:
    assert workload.tiny is not None
    expected = workload.reference(workload.tiny())
    build = workload.build("gradtape")
    assert build is not None
    for variant in ("plain", "function"):
        ours = adaptor("gradtape", variant, workload.dtype)
        call = build(workload.tiny(), ours.wrap)
        for _ in range(CALLS):
            found = checked(workload, call(), expected, ours.array)
            assert "wrong" not in found, f"{variant}: {found['wrong']}"


def test_every_library_has_every_program() -> None:
    assert len(SCIENCE) >= 34
    for workload in SCIENCE:
        assert [build.__name__ for build in workload.builds] == ["gradtape", "jax", "torch"]


def test_names_and_groups() -> None:
    names = [workload.name for workload in WORKLOADS]
    assert len(set(names)) == len(names)
    assert {workload.group for workload in WORKLOADS} == set(GROUPS)
    assert find("kalman").group == "science"


def test_a_step_of_descent_is_checked_along_its_gradient() -> None:
    workload = find("autoencoder")
    assert workload.tiny is not None
    inputs = workload.tiny()
    expected = workload.reference(inputs)
    ours = adaptor("gradtape", "plain", "float32")
    build = workload.build("gradtape")
    assert build is not None
    loss, first, *rest = build(inputs, ours.wrap)()
    assert "wrong" not in checked(workload, (loss, first, *rest), expected, ours.array)
    other = (loss, first + 0.01, *rest)
    assert "wrong" in checked(workload, other, expected, ours.array)


def test_scan_as_a_python_loop() -> None:
    scan = python_scan(np.stack)

    def step(carry: Any, given: Any) -> Any:
        a, b = given
        return carry + a * b, (carry, a)

    xs = np.arange(4.0), np.arange(4.0) + 1
    for reverse in (False, True):
        carry, (before, seen) = scan(step, 0.0, xs, reverse=reverse)
        expected, (ours_before, ours_seen) = gt.scan(step, 0.0, xs, reverse=reverse)
        np.testing.assert_array_equal(carry, expected)
        np.testing.assert_array_equal(before, ours_before)
        np.testing.assert_array_equal(seen, ours_seen)
    carry, found = scan(lambda x, _: (x * 2.0, None), 1.0, None, length=3)
    assert (carry, found) == (8.0, None)


@pytest.mark.parametrize(("width", "stride"), [(3, 1), (4, 2), (6, 2)])
def test_convolutions(width: int, stride: int) -> None:
    rng = np.random.default_rng(0)
    theirs, ours = dialect("numpy"), dialect("gradtape")
    x, w = rng.standard_normal((2, 8, 8, 3)), rng.standard_normal((width, width, 3, 5))
    np.testing.assert_allclose(ours.strided(x, w, stride), theirs.strided(x, w, stride))
    x, w = rng.standard_normal((2, 4, 4, 3)), rng.standard_normal((width, width, 5, 3))
    np.testing.assert_allclose(ours.transposed(x, w, stride), theirs.transposed(x, w, stride))


def test_differences() -> None:
    xp = dialect("numpy")
    x = np.array([0.3, -1.2, 0.7])
    found = xp.jacobian(lambda x: np.stack([np.sin(x[0]) * x[1], x[2] ** 3]))(x)
    exact = [[np.cos(0.3) * -1.2, np.sin(0.3), 0.0], [0.0, 0.0, 3 * 0.7**2]]
    np.testing.assert_allclose(found, exact, atol=1e-11)
    np.testing.assert_allclose(xp.slope(lambda x: np.sum(x**2))(x), 2 * x, atol=1e-11)
