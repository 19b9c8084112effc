"""CONTRACT: complex numbers, kinks, errors."""

import re
from pathlib import Path

import numpy as np
import pytest

import gradtape as gt


class TestComplex:
    def test_gradient_of_a_real_loss(self):
        z = gt.asarray(3.0 + 4.0j)
        g = gt.grad(lambda z: gt.abs(z))(z)
        assert complex(g) == pytest.approx(0.6 + 0.8j)
        g = gt.grad(lambda z: gt.real(z * z))(z)  # x² - y²: 2x, -2y
        assert complex(g) == pytest.approx(6.0 - 8.0j)
        g = gt.grad(lambda z: gt.imag(z * z))(z)  # 2xy: 2y, 2x
        assert complex(g) == pytest.approx(8.0 + 6.0j)

    def test_real_source_gives_a_real_gradient(self):
        g = gt.grad(lambda x: gt.abs(gt.exp(1j * x) + 1.0))(0.3)
        assert g.dtype == gt.float64


KINKS = [
    ("abs at 0", lambda x: gt.abs(x), 0.0, 0.0),
    ("relu at 0", lambda x: gt.relu(x), 0.0, 0.0),
    ("norm at 0", lambda x: gt.linalg.vector_norm(gt.stack([x, x])), 0.0, 0.0),
    ("clip on the lower bound", lambda x: gt.clip(x, 1.0, 2.0), 1.0, 1.0),
    ("clip on the upper bound", lambda x: gt.clip(x, 1.0, 2.0), 2.0, 1.0),
    ("clip outside", lambda x: gt.clip(x, 1.0, 2.0), 3.0, 0.0),
    ("maximum tie, first", lambda x: gt.maximum(x, 1.0), 1.0, 1.0),
    ("maximum tie, second", lambda x: gt.maximum(1.0, x), 1.0, 0.0),
    ("minimum tie, first", lambda x: gt.minimum(x, 1.0), 1.0, 1.0),
    ("minimum tie, second", lambda x: gt.minimum(1.0, x), 1.0, 0.0),
    ("sqrt at 0", lambda x: gt.sqrt(x), 0.0, np.inf),
    ("x**0", lambda x: x**0, 0.0, 0.0),
    ("x**0.0", lambda x: x**0.0, 0.0, 0.0),
    ("x**1 at 0", lambda x: x**1, 0.0, 1.0),
    ("x**2 at 0", lambda x: x**2, 0.0, 0.0),
]


@pytest.mark.parametrize(("f", "at", "slope"), [k[1:] for k in KINKS], ids=[k[0] for k in KINKS])
def test_kinks(f, at, slope):
    assert float(gt.grad(f)(at)) == slope
    assert float(gt.jvp(f, (at,), (1.0,))[1]) == slope


def test_kinks_are_those_of_the_documentation():
    text = (Path(__file__).parents[2] / "docs" / "derivatives.md").read_text()
    rows = dict(re.findall(r"^\| (.+?) \| (\S+) \|$", text, re.MULTILINE))
    del rows["where"]
    assert {name: float(slope) for name, slope in rows.items()} == {k[0]: k[3] for k in KINKS}


def test_max_and_min_share_ties_equally():
    x = gt.asarray([3.0, 1.0, 3.0, 1.0])
    assert gt.grad(gt.max)(x).tolist() == [0.5, 0.0, 0.5, 0.0]
    assert gt.grad(gt.min)(x).tolist() == [0.0, 0.5, 0.0, 0.5]


def test_sort_and_median_follow_the_indices():
    x = gt.asarray([3.0, 1.0, 2.0])
    assert gt.grad(lambda x: gt.sort(x)[0])(x).tolist() == [0.0, 1.0, 0.0]
    assert gt.grad(gt.median)(x).tolist() == [0.0, 0.0, 1.0]


class TestErrors:
    def test_broadcast(self):
        message = (
            "add: shapes (3,) and (4,) do not broadcast (axis 0: 3 and 4). Reshape one of them."
        )
        with pytest.raises(ValueError, match=re.escape(message)):
            gt.asarray([1.0, 2.0, 3.0]) + gt.asarray([1.0, 2.0, 3.0, 4.0])

    def test_raised_at_the_line_that_made_them(self):
        x = gt.asarray([1.0, 2.0])
        with pytest.raises(IndexError):
            x[5]
        with pytest.raises(ValueError, match="matmul"):
            x @ np.ones((3, 3))
        with pytest.raises(TypeError, match="bitwise_and"):
            x & x
        with pytest.raises(ValueError, match="axis 3"):
            gt.sum(x, axis=3)

    def test_ambiguous_truth(self):
        with pytest.raises(ValueError, match=r"gt\.any"):
            bool(gt.asarray([True, False]))
