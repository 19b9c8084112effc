"""Ops declared from outside have the rules of the library's own."""

import re
import runpy
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from scipy import special

import gradtape as gt
from gradtape.extend import _declared
from gradtape.ir.op import REGISTRY

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture(autouse=True)
def declared():
    """What a test declares must not be there for others."""
    before = set(REGISTRY)
    yield
    for name in set(REGISTRY) - before:
        del REGISTRY[name]
        _declared.discard(name)


def bessel():
    return gt.extend.elementwise("test_j0", numpy=special.j0)


def centred(**rules):
    """x less its mean along the last axis."""
    return gt.extend.op(
        "test_centred",
        spec=lambda x: x,
        numpy=lambda x: x - np.mean(x, axis=-1, keepdims=True),
        jvp=lambda tangents, y, inputs: tangents[0] - gt.mean(tangents[0], axis=-1, keepdims=True),
        samples=[(np.array([[1.0, 2.0], [3.0, 5.0]]),), (np.array([0.5, 1.5, 4.0]),)],
        **rules,
    )


class TestElementwise:
    def test_everything_follows(self):
        cube = gt.extend.elementwise(
            "test_cube", numpy=lambda x: x**3, partials=[lambda y, x: 3.0 * x**2]
        )
        assert cube.op is REGISTRY["test_cube"]
        x = np.array([1.0, 2.0])
        np.testing.assert_allclose(gt.grad(lambda x: gt.sum(cube(x)))(x).numpy(), 3 * x**2)
        np.testing.assert_allclose(gt.vmap(gt.grad(gt.grad(cube)))(x).numpy(), 6 * x)
        np.testing.assert_allclose(gt.jacobian(cube)(gt.asarray(x)).numpy(), np.diag(3 * x**2))
        step = gt.function(lambda x: gt.sum(cube(x) * 2.0))
        for scale in (1.0, 2.0, 3.0):
            assert float(step(gt.asarray(x * scale))) == pytest.approx(18.0 * scale**3)
        assert gt.extend.check(cube).startswith("test_cube: 3 samples")
        assert cube(gt.asarray([1, 2])).dtype == gt.default_dtype()
        assert gt.sparsity_pattern(cube, gt.asarray(x)).nnz == 2

    @pytest.mark.slow
    def test_params_and_several_operands(self):
        f = gt.extend.elementwise(
            "test_blend",
            numpy=lambda a, b, c, power: a**power + b * c,
            partials=[
                lambda y, a, b, c, power: power * a ** (power - 1),
                lambda y, a, b, c, power: c,
                lambda y, a, b, c, power: b,
            ],
            params={"power": 2},
            sample_params=[{}, {"power": 3}],
            domains=[(0.5, 2.0)],
        )
        assert "10 samples" in gt.extend.check(f)
        assert float(f(2.0, 1.0, 3.0)) == 7.0
        assert float(f(2.0, 1.0, 3.0, power=3)) == 11.0
        with pytest.raises(TypeError, match=r"unknown \['strength'\]"):
            f(1.0, 1.0, 1.0, strength=2)
        with pytest.raises(TypeError, match="expected 3"):
            f(1.0)

    def test_a_required_param(self):
        f = gt.extend.elementwise(
            "test_scaled",
            numpy=lambda x, by: x * by,
            partials=[lambda y, x, by: by],
            params=["by"],
            sample_params=[{"by": 2.0}],
        )
        assert float(gt.grad(lambda x: f(x, by=np.float64(3.0)))(1.0)) == 3.0
        with pytest.raises(TypeError, match=r"missing \['by'\]"):
            f(1.0)

    def test_a_composition_is_fused(self):
        bump = gt.extend.elementwise("test_bump", composition=lambda x: gt.exp(-(x**2)))
        x = gt.asarray(np.linspace(-1.0, 1.0, 10))
        assert gt.plan_of(gt.sum(bump(x))).count("loop") == 1
        assert "test_bump" not in gt.plan_of(bump(x))
        gt.extend.check(bump)
        kernel = gt.extend.elementwise(
            "test_kernel", numpy=np.sinh, partials=[lambda y, x: gt.cosh(x)]
        )
        assert "call" in gt.plan_of(kernel(x))

    def test_complex(self):
        f = gt.extend.elementwise(
            "test_faddeeva",
            numpy=special.wofz,
            partials=[lambda y, z: 2j / np.sqrt(np.pi) - 2.0 * z * y],
            domains=[(-1.0, 1.0)],
            dtypes=("complex128",),
        )
        gt.extend.check(f)


class TestOp:
    def test_one_derivative_is_enough(self):
        for name, rule in (
            ("jvp", lambda tangents, y, inputs: gt.flip(tangents[0], axis=-1)),
            ("vjp", lambda index, g, y, inputs: gt.flip(g, axis=-1)),
        ):
            f = gt.extend.op(
                f"test_reversed_{name}",
                spec=lambda x: (x.shape, x.dtype),
                numpy=lambda x: x[..., ::-1],
                batch="leading",
                sparsity="moved",
                samples=[(np.arange(6.0).reshape(2, 3),)],
                **{name: rule},
            )
            assert "derivatives" in gt.extend.check(f)
            assert gt.sparsity_pattern(f, gt.asarray([1.0, 2.0, 3.0])).nnz == 3

    def test_several_results(self):
        f = gt.extend.op(
            "test_sum_and_difference",
            spec=lambda a, b: [a, a],
            numpy=lambda a, b: (a + b, a - b),
            vjp=lambda index, g, y, inputs: g[0] - g[1] if index else g[0] + g[1],
            sparsity="elements",
            promote="same",
            samples=[(np.ones(3), np.arange(3.0))],
        )
        gt.extend.check(f)
        total, difference = f(gt.asarray(3.0), 1.0)
        assert (float(total), float(difference)) == (4.0, 2.0)

    def test_no_derivative_says_what_to_give(self):
        f = gt.extend.op("test_opaque", spec=lambda x: x, numpy=np.sin, samples=[(np.ones(2),)])
        with pytest.raises(LookupError, match="jvp= or vjp="):
            gt.grad(lambda x: gt.sum(f(x)))(np.ones(2))
        g = gt.extend.elementwise("test_bare", numpy=np.sin)
        with pytest.raises(LookupError, match="partials="):
            gt.grad(g)(1.0)
        assert "derivatives" not in gt.extend.check(g)
        why = gt.extend.Undefined("labels have none")
        h = gt.extend.op("test_labels", spec=lambda x: x, numpy=np.sin, jvp=why, vjp=why)
        with pytest.raises(LookupError, match="labels have none"):
            gt.grad(h)(1.0)

    def test_failures_name_the_line(self):
        def kernel(x):
            if (x < 0).any():
                raise ValueError("negative")
            return x

        f = gt.extend.op(
            "test_positive", spec=lambda x: x, numpy=kernel, may_fail=True,
            vjp=lambda index, g, y, inputs: g,
        )  # fmt: skip
        with pytest.raises(ValueError, match="negative"):
            f(gt.asarray(-1.0))
        with pytest.raises(ValueError, match="negative") as caught:
            gt.function(lambda x: f(x) * 2.0)(gt.asarray(-1.0))
        assert "test_positive recorded at" in caught.value.__notes__[0]

    def test_a_kernel_is_held_to_its_spec(self):
        f = gt.extend.op("test_short", spec=lambda x: ((2,), "float64"), numpy=lambda x: x)
        with pytest.raises(ValueError, match=r"gave float64 of shape \(3,\), where its spec says"):
            f(np.ones(3)).numpy()


class TestCheck:
    @pytest.mark.parametrize(
        ("rules", "message"),
        [
            ({"sparsity": "elements"}, "sparsity: operand 0: the pattern lacks entry"),
            ({"sparsity": "nothing"}, "sparsity"),
            ({"mask": lambda index, mask, y, inputs: ~mask}, "mask"),
        ],
    )
    def test_wrong_rules_are_found(self, rules, message):
        f = centred(**rules)
        with pytest.raises(AssertionError, match=f"test_centred, sample 0, {message}"):
            gt.extend.check(f)

    def test_right_rules_pass(self):
        for batch in ("loop", "leading"):
            assert "2 samples" in gt.extend.check(centred(batch=batch, replace=batch != "loop"))

    def test_a_wrong_batch(self):
        f = gt.extend.op(
            "test_total", spec=lambda x: x, numpy=lambda x: x - np.mean(x), batch="leading",
            jvp=lambda t, y, inputs: t[0] - gt.mean(t[0]), samples=[(np.arange(3.0),)],
        )  # fmt: skip
        with pytest.raises(AssertionError, match="test_total, sample 0, batch"):
            gt.extend.check(f)

    def test_a_wrong_composition(self):
        f = gt.extend.elementwise(
            "test_mismatch", numpy=np.sin, partials=[lambda y, x: gt.cos(x)],
            composition=lambda x: gt.cos(x),
        )  # fmt: skip
        with pytest.raises(AssertionError, match="test_mismatch, sample 0"):
            gt.extend.check(f)

    def test_no_samples(self):
        f = gt.extend.op("test_nowhere", spec=lambda x: x, numpy=lambda x: x)
        with pytest.raises(ValueError, match="samples="):
            gt.extend.check(f)

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["sin", "add", "matmul", "solve", "sum", "gather", "svd"])
    def test_the_librarys_own(self, name):
        assert gt.extend.check(REGISTRY[name], order=1).startswith(f"{name}: ")


class TestNames:
    def test_clashes_are_refused(self):
        with pytest.raises(ValueError, match="gradtape's own"):
            gt.extend.elementwise("sin", numpy=np.sin, replace=True)
        bessel()
        with pytest.raises(ValueError, match="replace=True"):
            bessel()

    def test_replaced_on_demand(self):
        one = gt.extend.elementwise("test_twice", numpy=np.sin, partials=[lambda y, x: gt.cos(x)])
        first = one(1.0)
        two = gt.extend.elementwise("test_twice", numpy=np.cos, replace=True)
        assert float(two(1.0)) == np.cos(1.0)
        assert float(first) == np.sin(1.0)

    @pytest.mark.parametrize("name", ["two words", "", 3])
    def test_no_names(self, name):
        with pytest.raises(ValueError, match="is not a name"):
            gt.extend.elementwise(name, numpy=np.sin)


def element(**given):
    return lambda: gt.extend.elementwise("t", **given)


def any_op(**given):
    return lambda: gt.extend.op("t", spec=lambda x: x, numpy=np.sin, **given)


@pytest.mark.parametrize(
    ("declare", "error", "message"),
    [
        (element(), TypeError, "no kernel"),
        (element(numpy=3), TypeError, "numpy="),
        (element(numpy=np.sin, partials=[3]), TypeError, r"partials\[0\]"),
        (element(numpy=np.add, partials=[np.sin], arity=2), ValueError, "1 partials for 2"),
        (element(numpy=np.sin, accepts="odd"), ValueError, "accepts="),
        (any_op(batch="fast"), ValueError, "'loop'"),
        (any_op(jvp=3), TypeError, "jvp="),
        (any_op(params=["a b"]), ValueError, "not a name"),
        (any_op(promote="up"), ValueError, "promote="),
    ],
)
def test_declarations_are_checked(declare, error, message):
    with pytest.raises(error, match=message):
        declare()
    assert "t" not in REGISTRY


class TestExamples:
    def test_scipy(self, capsys):
        assert runpy.run_path(str(EXAMPLES / "extend_scipy.py"))["main"]() == 0
        assert "struve: 12 samples" in capsys.readouterr().out

    def test_numba(self, monkeypatch, capsys):
        try:
            import numba  # noqa: F401
        except ImportError:
            # The same loop, run by Python.
            stand_in = types.ModuleType("numba")
            stand_in.njit = lambda f: f
            monkeypatch.setitem(sys.modules, "numba", stand_in)
        assert runpy.run_path(str(EXAMPLES / "extend_numba.py"))["main"]() == 0
        assert "smooth: 3 samples" in capsys.readouterr().out

    def test_the_page_runs(self, capsys):
        page = (EXAMPLES.parent / "docs" / "extending.md").read_text("utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
        for block in blocks:
            exec(compile(block, "extending.md", "exec"), {"__name__": "page"})
        assert "smooth: 1 sample" in capsys.readouterr().out
