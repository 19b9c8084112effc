"""The ufuncs of scipy.special that record, and those that say that they do not."""

import functools

import numpy as np
import pytest

import gradtape as gt
from gradtape.interop.numpy_protocols.ufuncs import SPECIAL

special = pytest.importorskip("scipy.special")
X = np.array([0.2, 0.5, 0.9])


OF_ORDER = ("iv", "ive", "jn", "jv", "kn", "kv", "kve", "yn", "yv")


def arguments(name):
    """A function of arrays, and arguments; the order of a Bessel function is a number."""
    function = getattr(special, name)
    if name in OF_ORDER:
        return functools.partial(function, 2 if name in ("kn", "yn") else 1.5), [X]
    return function, [X] if function.nin == 1 else [X, X[::-1] + 0.3]


@pytest.mark.parametrize("name", SPECIAL)
def test_values_and_derivatives(name):
    function, given = arguments(name)
    found = function(*map(gt.asarray, given))
    assert isinstance(found, gt.Tensor)
    np.testing.assert_allclose(found.numpy(), function(*given), rtol=1e-12)
    for position in range(len(given)):
        slope = gt.grad(lambda *xs: gt.sum(function(*xs)), position)(*given).numpy()
        step = 1e-6
        ahead, behind = (
            function(*[x + s * (at == position) for at, x in enumerate(given)])
            for s in (step, -step)
        )
        np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-9)


def test_gamma_of_negative_numbers():
    x = np.array([-0.5, -1.5, -2.3, 3.2])
    np.testing.assert_allclose(special.gamma(gt.asarray(x)).numpy(), special.gamma(x))
    np.testing.assert_allclose(special.rgamma(gt.asarray(x)).numpy(), special.rgamma(x))


def test_other_ufuncs_say_so():
    with pytest.raises(TypeError, match="betainc is not recorded"):
        special.betainc(2.0, 3.0, gt.asarray(X))
    with pytest.raises(TypeError, match="order is a Tensor"):
        special.jv(gt.asarray(X), 1.0)
    with pytest.raises(TypeError, match=r"out="):
        special.erf(gt.asarray(X), out=np.zeros(3))
