"""Calls of root, fixed_point and minimize that cannot be right, and what they are told."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import DtypeError

SOLVERS = {
    "root": lambda **how: gt.root(lambda x: x**2 - 4.0, 1.0, **how),
    "fixed_point": lambda **how: gt.fixed_point(lambda x: 0.5 * (x + 4.0 / x), 1.0, **how),
    "minimize": lambda **how: gt.minimize(lambda x: (x - 2.0) ** 2, 1.0, **how),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_unknown_methods(name):
    for wrong in ("guess", 3):
        with pytest.raises(ValueError, match=rf"{name}: method {wrong!r} is unknown. Use one of"):
            SOLVERS[name](method=wrong)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("tol", [0.0, -1e-8, float("nan")])
def test_tolerances_are_positive(name, tol):
    with pytest.raises(ValueError, match=rf"{name}: tol=.* is not positive"):
        SOLVERS[name](tol=tol)


@pytest.mark.parametrize(
    ("name", "method"),
    [("root", "newton"), ("fixed_point", "newton"), ("fixed_point", "iteration")],
)
def test_options_of_built_in_methods(name, method):
    assert float(SOLVERS[name](method=method, options={"maxiter": 40})) == pytest.approx(2.0)
    with pytest.raises(ValueError, match=rf"{name}: {method} has no option 'steps'. Use maxiter"):
        SOLVERS[name](method=method, options={"steps": 40})


@pytest.mark.parametrize("method", ["lm", "krylov", "broyden1", "HYBR", "df-sane"])
def test_methods_of_scipy(method):
    assert abs(float(SOLVERS["root"](method=method))) == pytest.approx(2.0)


def test_values_are_real():
    for ask in (
        lambda: gt.minimize(lambda x: gt.sum(x**2) * 1j, np.ones(2)),
        lambda: gt.objective(lambda x: gt.sum(x**2) * 1j).jac(np.ones(2)),
        lambda: gt.prepare_hessian(lambda x: gt.sum(x**2) * 1j, np.ones(2)),
        lambda: gt.hessian_operator(lambda x: gt.sum(x**2) * 1j, np.ones(2)),
    ):
        with pytest.raises(DtypeError, match=r"complex128, not a real number.*gt\.real"):
            ask()
