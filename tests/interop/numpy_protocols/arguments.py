"""Arguments for calls of NumPy's functions: operands of each function, values of each parameter."""

import inspect
import io

import numpy as np

rng = np.random.default_rng(0)
SHAPE = (3, 4)
MASK = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 1, 1]], dtype=bool)
SPD = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 5.0]])
NAN = np.where(MASK, rng.normal(size=SHAPE), np.nan)


def array(shape=SHAPE, dtype="f8"):
    """Numbers between -2 and 2, or small positive integers, or booleans."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.normal(size=shape) > 0
    if kind in "iu":
        return rng.integers(1, 6, size=shape).astype(dtype)
    values = rng.uniform(-2, 2, size=shape)
    return (values + 1j * rng.normal(size=shape) if kind == "c" else values).astype(dtype)


def square(batch=()):
    return rng.normal(size=(*batch, 3, 3)) + 4 * np.eye(3)


NAN_OPERANDS = [(NAN,), (NAN.astype("f4"),), (array(),)]
DEFAULT_OPERANDS = [
    (array(),), (array(SHAPE, "f4"),), (array(SHAPE, "i8"),), (MASK,), (array((2, 3, 4)),),
    (array(SHAPE, "c16"),), (array(SHAPE, "u1"),), (array((7,)),),
]  # fmt: skip
PAIRS = [
    (array(), array()), (array(SHAPE, "f4"), array((4,), "f4")), (array(SHAPE,
    "i8"), array((4,), "i8")),
    (array(SHAPE, "f4"), array()), (array(SHAPE, "u1"), 2), (array(), 1.5), (MASK, ~MASK),
    (array(SHAPE, "i4"), array(SHAPE, "f4")), (2.0, array()),
]  # fmt: skip


# Operands of functions that do not take one array of any dtype. Each is tried in turn.
_line, _two, _mat = (7,), (array(), array()), (square(), square((2,)))
OPERANDS = {
    "append": [_two], "array_equal": [_two], "array_equiv": [_two], "allclose": [_two],
    "isclose": [_two], "array_split": [(array(), 2), (array(), [1, 2])],
    "split": [(array(), 3), (array(), [1, 2])], "hsplit": [(array(), 2)], "vsplit": [(array(), 3)],
    "dsplit": [(array((2, 3, 4)), 2)], "unstack": [(array(),)],
    "astype": [(array(), "f4")], "atleast_1d": [(np.float64(3.0),), _two],
    "atleast_2d": [(array(_line),), _two], "atleast_3d": [(array(_line),), (array(),)],
    "average": [(array(),), (array((2, 3, 4)),)], "bincount": [(array(_line, "i8"),)],
    "block": [([[array(), array()], [array(), array()]],)],
    "broadcast_arrays": [(array(), array((4,)))], "broadcast_to": [(array((4,)), (3, 4))],
    "can_cast": [(array().dtype, "f4")], "choose": [(array((4,),
    "i8") % 2, [array((4,)), array((4,))])],
    "clip": [(array(), -0.5, 0.5)], "column_stack": [([array((3,)), array()],)],
    "compress": [([True, False, True], array())], "concat": [([array(), array()],)],
    "concatenate": [([array(), array()],), ([array(), array(SHAPE, "f4")],)],
    "convolve": [(array(_line), array((3,))), (array((3,)), array(_line))],
    "correlate": [(array(_line), array((3,))), (array((3,)), array(_line))],
    "copyto": [], "cross": [(array((3, 3)), array((3, 3)))],
    "linalg.cross": [(array((3, 3)), array((3, 3)))],
    "delete": [(array(), 1), (array(_line), [1, 2])], "insert": [
        (array(), 1, 2.0), (array(_line), [1, 3], [5.0, 6.0]), (array(_line), 2, 9.0)],
    "diag": [(array(_line),), (array(),)], "diag_indices_from": [(square(),)],
    "digitize": [(array(), np.array([-1.0, 0.0, 1.0]))],
    "dot": [(array((3, 4)), array((4, 2))), (array((4,)), array((4,))),
            (array((2, 3, 4)), array((5, 4, 2))), (array(), 2.0)],
    "dstack": [([array(), array()],)], "hstack": [([array(), array()],),
    ([array((2,)), array((3,))],)],
    "vstack": [([array(), array()],), ([array((3,)), array((3,))],)],
    "stack": [([array(), array()],)],
    "einsum": [("ij,kj->ik", array(), array()), (array(), [0, 1], array(), [2, 1], [0, 2])],
    "einsum_path": [("ij,kj->ik", array(), array())],
    "expand_dims": [(array(), 0), (array(), (0, 2))], "extract": [(MASK, array())],
    "full_like": [(array(), 2.0), (array(SHAPE, "i8"), 3)],
    "geomspace": [], "logspace": [], "linspace": [(array((3,)), array((3,))),
    (np.float64(0), np.float64(3))],
    "gradient": [(array(),), (array(), 0.5), (array(_line), np.sort(array(_line)))],
    "histogram2d": [(array(_line), array(_line))], "histogramdd": [(array((5, 2)),)],
    "i0": [(array(),)], "inner": [(array(), array((2, 4)))],
    "linalg.inner": [(array(), array((2, 4)))],
    "interp": [(array(), np.array([-1.0, 0.0, 1.0]), np.array([2.0, 3.0, 1.0])),
               (np.float64(0.3), np.array([-1.0, 0.0, 1.0]), np.array([2.0, 3.0, 1.0]))],
    "intersect1d": [_two], "union1d": [_two], "setdiff1d": [_two], "setxor1d": [_two],
    "isin": [(array(SHAPE, "i8"), np.array([1, 2]))], "ix_": [(np.array([0, 1]), np.array([1, 2]))],
    "kron": [(array((2, 2)), array((2, 3)))], "lexsort": [((array(_line), array(_line)),)],
    "linalg.cholesky": [(SPD,), (SPD + np.tril(SPD, -1),)],
    "linalg.cond": [_mat[:1]], "linalg.det": [(m,) for m in _mat],
    "linalg.inv": [(m,) for m in _mat],
    "linalg.eig": [_mat[:1]], "linalg.eigvals": [_mat[:1]], "linalg.eigh": [_mat[:1]],
    "linalg.eigvalsh": [_mat[:1]], "linalg.slogdet": [(m,) for m in _mat],
    "linalg.lstsq": [(array((5, 3)), array((5,))), (array((5, 3)), array((5, 2)))],
    "linalg.matmul": [(array(), array((4, 2)))], "linalg.matrix_power": [(square(), 3)],
    "linalg.multi_dot": [([array(), array((4, 2)), array((2, 5))],)],
    "linalg.norm": [(array(),), (array((2, 3, 4)),), (array(_line),)],
    "linalg.outer": [(array((3,)), array((4,)))], "outer": [(array((3,)), array((4,))), _two],
    "linalg.qr": [(array(),), (array((4, 3)),)], "linalg.solve": [(square(), array((3, 2))),
    (square(), array((3,)))],
    "linalg.svd": [(array((4, 3)),)], "linalg.tensordot": [(array((2, 3)), array((2, 3)))],
    "linalg.tensorinv": [(rng.normal(size=(4, 6, 8, 3)),)],
    "linalg.tensorsolve": [(rng.normal(size=(2, 3, 6)), array((2, 3)))],
    "linalg.vecdot": [(array(), array())], "linalg.trace": [(square(),), (square((2,)),)],
    "linalg.diagonal": [(square((2,)),)],
    "matrix_transpose": [(array(),)], "may_share_memory": [_two], "shares_memory": [_two],
    "meshgrid": [(array((3,)), array((4,)))], "moveaxis": [(array((2, 3, 4)), 0, 2)],
    "nanquantile": [(NAN, 0.3), (NAN, [0.1, 0.9])], "nanpercentile": [(NAN, 30.0), (NAN, [10, 90])],
    "quantile": [(array(), 0.3), (array(), [0.1, 0.9])], "percentile": [(array(), 30.0),
    (array(), [10, 90])],
    "nonzero": [(MASK,), (array(),)], "packbits": [(MASK,)], "unpackbits": [(array(_line, "u1"),)],
    "pad": [(array(), 1), (array(), ((1, 0), (0, 2)), "edge")],
    "partition": [(array(), 1)], "argpartition": [],
    "permute_dims": [(array(),), (array(), (1, 0))],
    "piecewise": [(array(_line), [np.arange(7) < 3], [1.0, 2.0])],
    "poly": [(array((3,)),)], "polyadd": [(array((3,)), array((4,)))],
    "polysub": [(array((3,)), array((4,)))],
    "polymul": [(array((3,)), array((4,)))], "polyder": [(array((4,)),)],
    "polydiv": [(array((4,)), array((2,)))],
    "polyfit": [(np.arange(5.0), array((5,)), 2)], "polyint": [(array((4,)),)],
    "polyval": [(array((3,)), array())],
    "ravel_multi_index": [((np.array([0, 1]), np.array([1, 2])), (3, 4))],
    "unravel_index": [(np.array([1, 5]), (3, 4))],
    "repeat": [(array(), 2), (array((3,)), [1, 0, 2])], "reshape": [(array(), (4, 3)),
    (array(), -1)],
    "resize": [(array(), (5, 4))], "roll": [(array(), 1), (array(), (1, 2))],
    "rollaxis": [(array((2, 3, 4)), 2)], "roots": [(array((4,)),)], "rot90": [(array(),)],
    "save": [], "savez": [], "savez_compressed": [], "savetxt": [],
    "searchsorted": [(np.sort(array(_line)), array())],
    "select": [([MASK, ~MASK], [array(), array()])], "sinc": [(array(),)],
    "swapaxes": [(array((2, 3, 4)), 0, 2)], "take": [(array(), [0, 2]),
    (array(), np.array([1, 1]))],
    "take_along_axis": [(array(), np.argsort(array(), axis=-1))],
    "tensordot": [(array((2, 3)), array((2, 3))), (array((2, 3)), array((3, 2)), 1)],
    "tile": [(array(), 2), (array(), (2, 1))], "trace": [(square(),), (array((2, 3, 4)),)],
    "trim_zeros": [(np.array([0.0, 1.0, 0.0]),)], "vander": [(array((3,)),)],
    "vdot": [_two], "where": [(MASK, array(), array()), (MASK,)],
    "vecdot": [_two], "matmul": [(array(), array((4, 2)))], "matvec": [(array(), array((4,)))],
    "vecmat": [(array((3,)), array())], "common_type": [_two], "result_type": [_two],
    "apply_along_axis": [], "apply_over_axes": [], "fft.hfft": [(array(),)],
    "tril_indices_from": [(square(),)], "triu_indices_from": [(square(),)],
    "unwrap": [(3 * array(_line),), (3 * array(),)], "nan_to_num": [(NAN,), (array(SHAPE, "i8"),)],
    "float_power": [(np.abs(array()), array()), (array(SHAPE, "i8"), 2.5), (array(SHAPE, "u1"), 3)],
    "power": [(np.abs(array()), array()), (array(SHAPE, "f4"), 2), (array(SHAPE, "i8"), 2)],
    "reciprocal": DEFAULT_OPERANDS[:3], "ediff1d": [(array(_line),)],
    "real_if_close": [(array(),)], "cov": [(array(),), (array(_line),)],
    "corrcoef": [(array(),)], "trapezoid": [(array(),)],
    "cumulative_sum": [(array(_line),), (array(),)], "cumulative_prod": [(array(_line),),
    (array(),)],
}  # fmt: skip
# Values of a parameter, by its name in every function that has it.
VALUES = {
    "axis": [None, 0, 1, -1, (0, 1), (1, 0), (0,), ()],
    "dtype": ["f4", float, "i8", complex, "f2"], "keepdims": [True, False],
    "initial": [2.0, 0.0, -0.5], "where": [MASK, True], "out": [None, np.zeros(SHAPE), np.zeros(4)],
    "order": ["C", "F", "A", "K", None], "ddof": [0, 1, 0.5], "correction": [0, 1],
    "mean": [np.zeros((1, 4))], "casting": ["same_kind", "unsafe", "no", "safe"],
    "subok": [True, False], "shape": [(2, 2), 5, (2, 6), (-1,)], "offset": [0, 1, -1],
    "axis1": [0, 1, -1], "axis2": [1, 0, 2], "axisa": [0], "axisb": [0], "axisc": [0],
    "k": [0, 1, -1],
    "n": [0, 1, 2, 5], "s": [(2, 3)], "axes": [(0, 1), (1, 0), None, 1], "norm": ["ortho",
    "forward", None],
    "prepend": [0.0, array((3, 1))], "append": [0.0], "mode": [
        "full", "same", "valid", "wrap", "clip", "raise", "reflect", "symmetric", "r",
    "complete", "raw"],
    "kind": ["stable", "quicksort", "heapsort", None], "stable": [True, None],
    "decimals": [1, -1, 0],
    "ord": [None, 1, 2, -2, np.inf, -np.inf, "fro", "nuc", 0, 3],
    "weights": [np.arange(1.0, 4), array() ** 2],
    "returned": [True], "left": [0.5], "right": [0.5], "period": [2.0], "deg": [True], "nan": [1.0],
    "posinf": [9.0], "neginf": [-9.0], "copy": [True, False, None], "sparse": [True],
    "indexing": ["ij", "xy"],
    "rowvar": [False], "bias": [True], "y": [array()], "x": [array((4,))], "dx": [0.5],
    "edge_order": [1, 2],
    "equal_nan": [True], "rtol": [1e-3], "atol": [1e-3], "return_index": [True],
    "return_inverse": [True],
    "return_counts": [True], "UPLO": ["L", "U"], "full_matrices": [False, True],
    "compute_uv": [False],
    "hermitian": [False, True], "rcond": [1e-3, None], "tol": [0.1], "p": [1, -2, np.inf, "fro"],
    "upper": [True], "ind": [2], "optimize": [True, "greedy"], "to_end": [3.0],
    "to_begin": [[1.0, 2.0]],
    "increasing": [True], "N": [2], "include_initial": [True], "minlength": [9], "side": ["right"],
    "sorter": [None], "a_min": [-0.5], "a_max": [0.5], "min": [-0.5], "max": [0.5],
    "method": ["linear", "lower"],
    "overwrite_input": [True, False], "fweights": [np.array([1, 2, 1, 1])],
    "aweights": [np.arange(1.0, 5)],
    "discont": [4.0], "default": [7.0], "assume_unique": [True], "invert": [True],
    "device": ["cpu"],
    "shift": [2], "start": [0, 1], "num": [4], "endpoint": [False], "retstep": [True],
    "right_": [True],
    "bins": [4], "range": [(-1, 1)], "density": [True], "max_work": [0], "equal": [True],
}  # fmt: skip


def operands_of(name, function):
    """Lists of operands for a function, which a call begins with."""
    if name in OPERANDS:
        return OPERANDS[name]
    if isinstance(function, np.ufunc):
        return DEFAULT_OPERANDS if function.nin == 1 else PAIRS
    return NAN_OPERANDS if name.startswith("nan") else DEFAULT_OPERANDS


UFUNC_PARAMETERS = ("out", "where", "casting", "order", "dtype", "subok", "axis", "keepdims")
METHOD_PARAMETERS = {
    "reduce": ("axis", "dtype", "out", "keepdims", "initial", "where"),
    "accumulate": ("axis", "dtype", "out"),
    "outer": ("dtype", "casting"),
}


def parameters_of(function, method=""):
    """The names of a function's parameters in order, those by keyword only, and the defaults."""
    if isinstance(function, np.ufunc):
        names = METHOD_PARAMETERS.get(method, UFUNC_PARAMETERS)
        return [], list(names), {}
    found = inspect.signature(function).parameters.values()
    fixed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [p.name for p in found if p.kind in fixed]
    keywords = [p.name for p in found if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return positional, keywords, {p.name: p.default for p in found}


def saved(function):
    """What a function that writes a file writes."""
    file = io.BytesIO()
    function(file)
    return file.getvalue()
