"""NumPy's functions on tensors have NumPy's signatures: `surface` generates the calls."""

import inspect
import os

import numpy as np
import pytest
from tests.interop.numpy_protocols import surface

import gradtape as gt
from gradtape.interop.numpy_protocols.binding import RecordedFunction
from gradtape.interop.numpy_protocols.dispatch import FUNCTIONS, _name
from gradtape.interop.numpy_protocols.ufuncs import UFUNCS

# `make fuzz-numpy` sets the number of calls; the suite takes every seventh.
COUNT = int(os.environ.get("GRADTAPE_NUMPY_FUZZ", "0"))
X = np.arange(12.0).reshape(3, 4)


@pytest.mark.slow
def test_every_call_is_right_or_refused_by_name():
    report = surface.run(COUNT or 3000, every=1 if COUNT else 7)
    print(report)
    assert report.counts["equal"] > 2000
    assert not report.wrong + report.unnamed, str(report)


@pytest.mark.parametrize("function", FUNCTIONS, ids=_name)
def test_our_parameters_have_the_names_of_numpy(function):
    ours = inspect.signature(FUNCTIONS[function]).parameters.values()
    theirs = inspect.signature(function).parameters
    named = [p.name for p in ours if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    free = any(p.kind is p.VAR_KEYWORD for p in theirs.values())
    assert free or set(named) <= set(theirs), set(named) - set(theirs)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda x: np.sum(x, out=np.zeros(4), axis=0), "out="),
        (lambda x: np.sin(x, where=X > 3), "where="),
        (lambda x: np.sum(x, dtype="f2"), "dtype="),
        (lambda x: np.quantile(x, 0.5, method="lower"), "method="),
        (lambda x: np.linalg.qr(x, "raw"), "mode="),
        (lambda x: np.pad(x, 1, "linear_ramp"), "mode="),
        (lambda x: np.sort(x, order="field"), "order="),
        (lambda x: np.add(x, x, signature="ff->f"), "signature="),
        (lambda x: np.subtract.reduce(x), "np.subtract.reduce"),
        (lambda x: np.add.at(x, [0], 1.0), "np.add.at"),
        (lambda x: np.add.reduceat(x, [0, 1]), "np.add.reduceat"),
    ],
)
def test_a_refusal_names_what_it_refuses(call, word):
    with pytest.raises(TypeError, match=word.replace(".", r"\.")):
        call(gt.asarray(X))


def test_wrong_calls_are_refused_as_by_python():
    x = gt.asarray(X)
    with pytest.raises(TypeError, match=r"np\.sum: .*'axes'"):
        RecordedFunction("np.sum", np.sum, FUNCTIONS[np.sum])((x,), {"axes": 0})
    with pytest.raises(TypeError, match="axis"):
        RecordedFunction("np.sum", np.sum, FUNCTIONS[np.sum])((x, 0), {"axis": 0})
    with pytest.raises(TypeError, match=r"np\.kron: too many"):
        RecordedFunction("np.kron", np.kron, FUNCTIONS[np.kron])((x, x, x), {})


DIFFERENTIABLE = {
    "average": lambda x: np.average(x, axis=0, weights=np.arange(1.0, 4)),
    "sum where initial": lambda x: np.sum(x, 0, None, None, True, 2.0, X > 3),
    "max initial": lambda x: np.max(x, axis=0, initial=-0.5),
    "var ddof": lambda x: np.var(x, axis=1, ddof=1),
    "std where": lambda x: np.std(x, axis=1, where=X > 2),
    "nanmean": lambda x: np.nanmean(np.where(X == 5, np.nan, x), axis=0),
    "nanquantile": lambda x: np.nanquantile(np.where(X == 5, np.nan, x), 0.3, axis=0),
    "interp": lambda x: np.interp(x, [0.0, 2.0, 9.0], [0.0, 5.0, 1.0]),
    "interp fp": lambda x: np.interp([0.3, 1.7], [0.0, 1.0, 2.0], x[:, 0]),
    "trapezoid": lambda x: np.trapezoid(x, np.array([0.0, 1.0, 3.0, 4.0])),
    "gradient": lambda x: np.gradient(x, 0.5)[0],
    "convolve": lambda x: np.convolve(x[0], x[1][:2], "same"),
    "correlate": lambda x: np.correlate(x[0], x[1][:2]),
    "cov": lambda x: np.cov(x),
    "corrcoef": lambda x: np.corrcoef(np.sin(x)),
    "unwrap": lambda x: np.unwrap(3 * x),
    "polyval": lambda x: np.polyval(x[0], x[1]),
    "norm of axes": lambda x: np.linalg.norm(np.sin(x), axis=(0, 1)),
    "nuclear": lambda x: np.linalg.norm(np.sin(x[:, :3]), "nuc"),
    "cond": lambda x: np.linalg.cond(np.sin(x[:, :3])),
    "eigh of one triangle": lambda x: np.linalg.eigh(np.sin(x[:, :3]))[0],
    "cholesky": lambda x: np.linalg.cholesky(np.sin(x[:, :3]) * 0.1 + np.eye(3)),
    "insert": lambda x: np.insert(x, [1, 2], x[0, 0], axis=1),
    "delete": lambda x: np.delete(x, 1, axis=0),
    "unique": lambda x: np.unique(x),
    "piecewise": lambda x: np.piecewise(x, [X > 4], [lambda y: y * y, lambda y: -y]),
    "select": lambda x: np.select([X > 4], [x * x], 1.0),
    "block": lambda x: np.block([[x, x], [x * x, x]]),
    "ravel F": lambda x: np.ravel(x, order="F") * np.arange(12.0),
    "logaddexp.reduce": lambda x: np.logaddexp.reduce(x, axis=1),
    "hypot.reduce": lambda x: np.hypot.reduce(1.0 + x, axis=1),
    "maximum.accumulate": lambda x: np.maximum.accumulate(x, axis=1),
    "multiply.outer": lambda x: np.multiply.outer(x[0], x[1]),
    "fmod": lambda x: np.fmod(x, 2.5),
    "lstsq": lambda x: np.linalg.lstsq(np.sin(x.T), x[0], rcond=None)[0],
    "bincount": lambda x: np.bincount(np.array([0, 2, 0, 1]), weights=x[0]),
    "einsum lists": lambda x: np.einsum(x, [0, 1], x, [2, 1], [0, 2]),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_pass(name):
    f = DIFFERENTIABLE[name]
    rng = np.random.default_rng(3)
    x, direction = X + rng.uniform(0.1, 0.2, X.shape), rng.normal(size=X.shape)
    weights = rng.normal(size=np.shape(f(x)))
    found = gt.grad(lambda t: np.sum(f(t) * weights))(x).numpy()
    step = 1e-6
    ahead, behind = (np.sum(f(x + s * direction) * weights) for s in (step, -step))
    assert np.sum(found * direction) == pytest.approx((ahead - behind) / (2 * step), rel=1e-5)


def test_files(tmp_path):
    x = gt.asarray(X)
    np.save(tmp_path / "one.npy", x)
    np.savez(tmp_path / "two.npz", x, named=x)
    np.savetxt(tmp_path / "three.txt", x)
    assert np.load(tmp_path / "one.npy").tolist() == X.tolist()
    with np.load(tmp_path / "two.npz") as loaded:
        assert loaded["arr_0"].tolist() == loaded["named"].tolist() == X.tolist()
    assert np.loadtxt(tmp_path / "three.txt").tolist() == X.tolist()


def test_memory():
    x = gt.asarray(X)
    assert np.shares_memory(x, x)
    assert not np.may_share_memory(x, gt.asarray(X))


@pytest.mark.parametrize("function", [np.ravel, lambda x, order: np.reshape(x, (4, 3), order)])
def test_orders_of_memory_are_refused(function):
    """NumPy's result depends on how the array lies in memory, which a tensor does not show."""
    x = gt.asarray(X)
    for given in (x, x.T):
        for order in ("C", "F"):
            np.testing.assert_array_equal(
                function(given, order=order), function(given.numpy(), order=order)
            )
        for order in ("A", "K"):
            with pytest.raises(ValueError, match=f"order='{order}' is not 'C' or 'F'"):
                function(given, order=order)


BOOLEANS = np.array([True, False, True]), np.array([True, True, True])


@pytest.mark.parametrize(
    "ufunc", [f for f in UFUNCS if isinstance(f, np.ufunc) and not f.signature]
)
def test_ufuncs_of_booleans(ufunc):
    """What NumPy refuses is refused; else the values are NumPy's, and so are dtypes but floats."""
    operands = BOOLEANS[: ufunc.nin]
    if len(operands) < ufunc.nin or not hasattr(np, ufunc.__name__):
        pytest.skip("a function of scipy.special")
    tensors = [gt.asarray(each) for each in operands]
    with np.errstate(all="ignore"):
        try:
            want = ufunc(*operands)
        except TypeError:
            with pytest.raises(TypeError):
                ufunc(*tensors)
            return
    pairs = zip(want, ufunc(*tensors), strict=True) if ufunc.nout > 1 else [(want, ufunc(*tensors))]
    for theirs, ours in pairs:
        assert theirs.dtype == ours.dtype or (theirs.dtype.kind, ours.dtype.kind) == ("f", "f")
        # NumPy computes in half precision here.
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=1e-6)


@pytest.mark.parametrize("name", ["deg2rad", "rad2deg", "radians", "degrees", "fabs"])
def test_ufuncs_of_real_numbers_refuse_complex_ones(name):
    with pytest.raises(TypeError, match=f"np.{name}: complex128 is complex"):
        getattr(np, name)(gt.asarray([1j]))
