"""Random programs: from a seed, inputs of random dtypes and shapes and some ops on them."""

import numpy as np

import gradtape as gt
from gradtape.errors import DtypeError

FLOATS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
ALL = ("bool", *SIGNED, *UNSIGNED, *FLOATS, *COMPLEX)
# Larger values are not made: a program has a dozen ops, and NumPy runs it several times.
LARGEST = 5000

LENGTHS = (0, 1, 2, 3, 7, 17, 33)
LENGTH_ODDS = (0.03, 0.2, 0.2, 0.19, 0.15, 0.15, 0.08)


def finite(x):
    return gt.where(gt.isfinite(x), x, 1.0)


def plus_zero(x):
    """NumPy does not say which zero it takes for the larger; adding 0 makes both the same."""
    return x + 0.0 if x.dtype.kind == "f" else x


def small(x):
    """Whole numbers that every integer dtype holds."""
    return gt.clip(gt.where(gt.isnan(x), 0.0, x), 0.0, 100.0)


def sign_of(x):
    """The sign of a NaN means nothing."""
    return gt.where(gt.isnan(x), 1.0, x)


EXACT_REAL = [
    gt.negative, gt.abs, gt.sign, gt.floor, gt.ceil, gt.trunc, gt.round, gt.square, gt.reciprocal,
    gt.positive, lambda x: gt.sqrt(gt.abs(x)), gt.sqrt, lambda x: plus_zero(gt.relu(x)),
    lambda x: plus_zero(gt.clip(x, -1.0, 1.0)), lambda x: x * 0.5 + 1.0, lambda x: 1.0 - x,
    lambda x: x / 3.0, lambda x: 2.0 / x, gt.rsqrt, lambda x: -x * x + x,
]  # fmt: skip
PREDICATES = [gt.isnan, gt.isinf, gt.isfinite, lambda x: gt.signbit(sign_of(x)), lambda x: x > 0.0]
WHOLE = [
    gt.negative, gt.abs, gt.sign, gt.square, gt.bitwise_invert, gt.positive, gt.floor,
    lambda x: x + 3, lambda x: x * 7, lambda x: gt.clip(x, 1, 50), gt.relu, lambda x: x**3,
    lambda x: x // 3, lambda x: x % 5, lambda x: gt.bitwise_right_shift(x, 1), gt.isfinite,
    lambda x: gt.bitwise_left_shift(x, 2),
]  # fmt: skip
LOGICAL = [gt.logical_not, gt.bitwise_invert, gt.isnan, gt.signbit, gt.isfinite]
FUNCTIONS = [
    gt.sin, gt.cos, gt.tan, gt.asin, gt.acos, gt.atan, gt.sinh, gt.cosh, gt.tanh, gt.asinh,
    gt.acosh, gt.atanh, gt.exp, gt.exp2, gt.expm1, gt.log, gt.log1p, gt.log2, gt.log10, gt.cbrt,
    gt.sigmoid, gt.softplus, gt.log_sigmoid, gt.erf, gt.erfc, gt.erfinv, gt.ndtr, gt.lgamma,
    gt.digamma, gt.sinc, gt.i0, gt.i1, lambda x: x**3, lambda x: x**-2, lambda x: x**5.5,
    lambda x: gt.log(gt.abs(x) + 0.5), lambda x: 1.0 / (gt.abs(x) + 1.0), lambda x: gt.asin(
        gt.clip(x, -0.9, 0.9)), lambda x: gt.exp(-gt.square(x)),
]  # fmt: skip
SMOOTH = [
    gt.sin, gt.cos, gt.tanh, gt.sigmoid, gt.softplus, gt.atan, gt.asinh, gt.square, gt.relu, gt.abs,
    lambda x: gt.log(gt.abs(x) + 0.5), lambda x: gt.sqrt(gt.abs(x) + 0.1), gt.negative, gt.erf,
    lambda x: gt.exp(gt.minimum(x, 2.0)), lambda x: x * 0.5 + 1.0, lambda x: gt.clip(x, -1.0, 1.0),
    lambda x: 1.0 / (gt.abs(x) + 1.0), lambda x: x**3, gt.floor, lambda x: gt.log1p(gt.square(x)),
    lambda x: gt.expm1(gt.tanh(x)), gt.sinc, gt.log_sigmoid, gt.stop_gradient,
]  # fmt: skip
EXACT_COMPLEX = [gt.negative, gt.conj, gt.real, gt.imag, gt.positive, gt.isnan, gt.isfinite]
COMPLEX_FUNCTIONS = [
    gt.abs, gt.exp, gt.sin, gt.cos, gt.sinh, gt.cosh, gt.tanh, gt.square, gt.reciprocal, gt.sqrt,
    gt.log, gt.angle, gt.sign, lambda x: x * (2.0 - 1.0j), lambda x: x + 1.0, lambda x: x**3,
    gt.expm1, gt.isinf,
]  # fmt: skip
COMPARISONS = [gt.less, gt.less_equal, gt.greater, gt.greater_equal, gt.equal, gt.not_equal]
EXACT_PAIRS = [
    gt.add, gt.subtract, gt.multiply, gt.divide, lambda x, y: plus_zero(gt.maximum(x, y)),
    lambda x, y: plus_zero(gt.minimum(x, y)), lambda x, y: gt.where(x > y, x, y),
    lambda x, y: x * 2.0 + y, lambda x, y: gt.where(gt.isfinite(x) & (y <= 0.0), x, 0.0),
    lambda x, y: gt.copysign(x, sign_of(y)), lambda x, y: x * y - x, gt.remainder,
    gt.floor_divide, gt.nextafter,
]  # fmt: skip
PAIRS = [
    gt.atan2, gt.hypot, gt.logaddexp, lambda x, y: gt.pow(gt.abs(x), y), gt.xlogy,
    lambda x, y: x / (gt.abs(y) + 1.0), lambda x, y: gt.where(x > y, x, y * 2.0),
    lambda x, y: gt.sin(x) * gt.cos(y) - x, lambda x, y: x * y + x * 2.0,
]  # fmt: skip
SMOOTH_PAIRS = [
    gt.add, gt.subtract, gt.multiply, gt.maximum, gt.minimum, lambda x, y: x / (gt.abs(y) + 1.0),
    lambda x, y: gt.where(x > y, x, y * 2.0), lambda x, y: gt.where(y > 0.0, x, 0.0), gt.logaddexp,
    lambda x, y: gt.hypot(x, y + 0.5), lambda x, y: gt.where(y > 0.0, x / y, x),
    lambda x, y: gt.pow(gt.abs(x) + 0.2, gt.tanh(y)), lambda x, y: gt.atan2(x, gt.abs(y) + 0.3),
]  # fmt: skip
WHOLE_PAIRS = [
    gt.add, gt.subtract, gt.multiply, gt.maximum, gt.minimum, gt.bitwise_and, gt.bitwise_or,
    gt.bitwise_xor, lambda x, y: gt.where(x > y, x, y), gt.floor_divide, gt.remainder, gt.divide,
    lambda x, y: gt.bitwise_left_shift(x, y % 8), lambda x, y: gt.bitwise_right_shift(x, y % 8),
]  # fmt: skip
LOGICAL_PAIRS = [
    gt.logical_and, gt.logical_or, gt.logical_xor, gt.bitwise_and, gt.bitwise_xor, gt.add,
    gt.multiply, gt.equal, gt.maximum,
]  # fmt: skip
COMPLEX_PAIRS = [gt.add, gt.subtract, gt.equal, gt.not_equal]
COMPLEX_PRODUCTS = [gt.multiply, gt.divide, lambda x, y: gt.conj(x) * y + x]

SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5)


def extreme(dtype):
    """Numbers at the edges of a dtype: the largest, the smallest, subnormal ones."""
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        return (bounds.min, bounds.max, 0, 1)
    bounds = np.finfo(dtype)
    return (
        *(bounds.max, -bounds.max, bounds.tiny, -bounds.tiny, bounds.smallest_subnormal),
        *(bounds.tiny / 3, np.sqrt(bounds.max), 1 + bounds.eps),
    )


class RandomProgram:
    """Makes inputs and applies ops by the numbers of one generator.

    `kind` is `exact` (only ops that every tier rounds alike), `any`, or `smooth` (floats with
    derivatives).
    """

    def __init__(self, seed, kind):
        self.rng = np.random.default_rng(seed)
        self.kind = kind
        self.special = kind != "smooth" and self.rng.random() < 0.3
        # A few programs run over more than one chunk, and on more than one thread.
        self.large = self.rng.random() < 0.01

    def choose(self, options):
        return options[int(self.rng.integers(len(options)))]

    def chance(self, odds):
        return self.rng.random() < odds

    # Inputs.

    def shape(self):
        if self.large:
            return self.choose([(70_001,), (300, 301), (3, 40_000), (40_000, 3), (2, 177, 200)])
        rank = int(self.rng.integers(0, 4))
        return tuple(int(n) for n in self.rng.choice(LENGTHS, rank, p=LENGTH_ODDS))

    def partner_shape(self, shape):
        """A shape that broadcasts with another: axes dropped, or of length 1."""
        shape = tuple(1 if self.chance(0.3) else n for n in shape)
        return shape[int(self.rng.integers(len(shape) + 1)) :] if self.chance(0.3) else shape

    def dtypes(self):
        if self.kind == "smooth":
            return [self.choose(FLOATS + (COMPLEX if self.chance(0.15) else ()))] * 3
        if self.chance(0.4):
            return [self.choose(FLOATS)] * 3
        if self.chance(0.3):
            return [self.choose(ALL)] * 3
        return [self.choose(ALL) for _ in range(3)]

    def array(self, shape, dtype):
        rng, dtype = self.rng, np.dtype(dtype)
        if dtype.kind == "b":
            return np.asarray(rng.integers(0, 2, shape), bool)
        if dtype.kind in "iu":
            low, high = (0, 100) if dtype.kind == "u" else (-50, 50)
            values = np.asarray(rng.integers(low, high, shape), dtype)
            return self.salted(values, extreme(dtype))
        scale = rng.choice([0.1, 1.0, 3.0])
        if dtype.kind == "c":
            both = np.empty(shape, dtype)
            part = both.real.dtype
            both.real = self.salted(self.normal(shape, scale, part), (*SPECIAL, *extreme(part)))
            both.imag = self.salted(self.normal(shape, scale, part), (*SPECIAL, *extreme(part)))
            return both
        return self.salted(self.normal(shape, scale, dtype), (*SPECIAL, *extreme(dtype)))

    def normal(self, shape, scale, dtype):
        return np.asarray(self.rng.standard_normal(shape) * scale, dtype)

    def salted(self, values, special):
        if not self.special or not values.size:
            return values
        flat = values.reshape(-1)
        for _ in range(int(self.rng.integers(1, 4))):
            flat[self.rng.integers(flat.size)] = self.choose(special)
        return flat.reshape(values.shape)

    def inputs(self):
        """Three arrays that broadcast with each other."""
        shape = self.shape()
        first, second, third = self.dtypes()
        return [
            self.array(shape, first),
            self.array(self.partner_shape(shape), second),
            self.array(self.partner_shape(shape), third),
        ]

    # Ops.

    def apply(self, inputs):
        """The values of a random program on tensors, in the order they were made."""
        pool = list(inputs)
        for _ in range(int(self.rng.integers(2, 5 if self.large else 12))):
            x = self.choose(pool)
            if x.size > LARGEST and not self.large:
                continue
            try:
                new = self.step(x, pool)
            except DtypeError:
                # Not every op takes every dtype, and says so when it is recorded.
                continue
            if new is not None:
                pool.append(new)
        return pool

    def step(self, x, pool):
        odds = self.rng.random()
        if odds < 0.33:
            return self.choose(self.unary(x.dtype))(x)
        if odds < 0.58:
            return self.pair(x, self.choose(pool))
        if odds < 0.62 and self.kind != "smooth":
            return self.converted(x)
        if odds < 0.78:
            return self.move(x, pool)
        if odds < 0.84:
            return self.pick_out(x)
        if odds < 0.96:
            return self.reduce(x)
        return self.product(x)

    def unary(self, dtype):
        kind = dtype.kind
        if self.kind == "smooth":
            return SMOOTH if kind == "f" else (*EXACT_COMPLEX[:4], *COMPLEX_FUNCTIONS[:8])
        if kind == "b":
            return LOGICAL
        if kind in "iu":
            return WHOLE
        if kind == "c":
            extra = () if self.kind == "exact" else COMPLEX_FUNCTIONS
            return (*EXACT_COMPLEX, *extra)
        if self.kind == "exact":
            return (*EXACT_REAL, *PREDICATES)
        return (*EXACT_REAL, *PREDICATES[:2], *FUNCTIONS)

    def pair(self, x, y):
        try:
            np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            return None
        kinds = x.dtype.kind + y.dtype.kind
        if self.kind == "smooth":
            options = COMPLEX_PAIRS[:2] + COMPLEX_PRODUCTS if "c" in kinds else SMOOTH_PAIRS
        elif "c" in kinds:
            options = COMPLEX_PAIRS + ([] if self.kind == "exact" else COMPLEX_PRODUCTS)
        elif "f" in kinds:
            options = EXACT_PAIRS + (COMPARISONS if self.kind == "exact" else PAIRS)
        elif kinds == "bb":
            options = LOGICAL_PAIRS
        else:
            options = WHOLE_PAIRS + COMPARISONS
        return self.choose(options)(x, y)

    def converted(self, x):
        target = np.dtype(self.choose(ALL))
        kind = x.dtype.kind
        if kind == "c":
            return gt.cast(x, self.choose(COMPLEX))
        if kind == "f" and target.kind in "iu":
            # Out of range nothing is defined.
            return gt.cast(small(x), target)
        return gt.cast(x, target)

    def move(self, x, pool):
        options = [
            lambda: gt.permute_dims(x, tuple(int(a) for a in self.rng.permutation(x.ndim))),
            lambda: gt.reshape(x, (x.size,)),
            lambda: gt.reshape(x, (*x.shape, 1)),
            lambda: self.windowed(x),
            lambda: self.windowed(x),
            lambda: gt.broadcast_to(x, (2, *x.shape)),
            lambda: gt.flip(x),
            lambda: gt.roll(x, 2, axis=0) if x.ndim else x,
            lambda: gt.stack([x, x], axis=int(self.rng.integers(x.ndim + 1))),
            lambda: gt.concat([x, gt.flip(x)], axis=0) if x.ndim else gt.reshape(x, (1, 1)),
            lambda: gt.matrix_transpose(x) if x.ndim > 1 else x,
            lambda: gt.tril(x) if x.ndim > 1 else gt.expand_dims(x, axis=0),
            lambda: gt.pad(x, 1) if x.ndim and x.size < 500 else x,
            lambda: gt.repeat(x, 2, axis=0) if x.ndim else x,
            lambda: gt.squeeze(x, axis=0) if x.ndim and x.shape[0] == 1 else x,
            lambda: self.written(x),
        ]
        return self.choose(options)()

    def window(self, x):
        """A basic index: a slice, an integer or everything, for each axis."""
        index = []
        for n in x.shape:
            if n and self.chance(0.15):
                index.append(int(self.rng.integers(-n, n)))
                continue
            if self.chance(0.4):
                index.append(slice(None))
                continue
            step = int(self.choose([1, 1, 2, 3, -1, -2]))
            ends = sorted(int(e) for e in self.rng.integers(0, n + 1, 2))
            index.append(slice(*ends, step) if step > 0 else slice(*ends[::-1], step))
        return tuple(index)

    def windowed(self, x):
        return x[self.window(x)]

    def written(self, x):
        """A copy with a part of it overwritten."""
        y = gt.identity(x)
        y[self.window(x)] = 1
        return y

    def pick_out(self, x):
        """Elements by arrays of positions or by a condition; fixed, so that they are in range."""
        if not x.ndim or not x.shape[0]:
            return gt.where(gt.cast(x, "bool"), x, x)
        n = x.shape[0]
        positions = self.rng.integers(-n, n, int(self.rng.integers(0, 6)))
        column = self.rng.integers(0, n, (3,) + x.shape[1:])
        options = [
            lambda: x[positions],
            lambda: gt.take(x, np.abs(positions) % n, axis=0),
            lambda: gt.take_along_axis(x, column, axis=0),
            lambda: x[positions[:, None] % n] if x.ndim == 1 else x[positions, ..., 0:1],
            lambda: gt.where(self.rng.integers(0, 2, x.shape).astype(bool), x, x[:1]),
        ]
        if self.kind != "exact":
            options.append(lambda: gt.scatter_add(x, positions % n, x[positions]))
        if x.dtype.kind in "biuf" and self.kind != "smooth":
            options.append(lambda: gt.cast(gt.argsort(x, axis=0), "int32"))
        if x.dtype.kind in "iuf":
            options.append(lambda: gt.sort(x, axis=0))
        return self.choose(options)()

    def axes(self, x):
        count = int(self.rng.integers(1, x.ndim + 1))
        return tuple(int(a) for a in self.rng.choice(x.ndim, count, replace=False))

    def reduce(self, x):
        kind = x.dtype.kind
        if not x.ndim:
            return gt.sum(x)
        options = ["any", "all", "count_nonzero"] if self.kind != "smooth" else []
        if kind in "biu" or self.kind != "exact":
            options += ["sum", "sum", "prod", "cumulative_sum"]
        if kind in "biuf":
            options += ["max", "min"]
            options += ["argmax", "argmin"] if self.kind != "smooth" else []
        if kind in "fc" and self.kind != "exact":
            options += ["mean", "mean", "sum"]
        if kind == "f" and self.kind != "exact":
            options += ["var", "logsumexp", "norm", "median", "std"]
        name = self.choose(options)
        if name in ("argmax", "argmin", "cumulative_sum", "median"):
            axis = int(self.rng.integers(x.ndim))
            if not x.shape[axis]:
                return gt.sum(x)
            return getattr(gt, name)(x, axis=axis)
        axes = self.axes(x)
        if name not in ("sum", "any", "all", "count_nonzero", "prod") and not all(
            x.shape[axis] for axis in axes
        ):
            return gt.sum(x, axis=axes)
        if name == "norm":
            return gt.norm(x, axis=axes[0], keepdims=True)
        if name == "prod" and kind == "f":
            x = gt.tanh(x)
        found = getattr(gt, name)(x, axis=axes, keepdims=self.chance(0.5))
        return plus_zero(found) if name in ("max", "min") else found

    def product(self, x):
        if x.dtype.kind == "b" or (self.kind == "exact" and x.dtype.kind not in "iu"):
            return self.windowed(x)
        if not x.ndim or x.size > 1500:
            return x + x
        if x.ndim == 1:
            return self.choose([gt.matmul, gt.outer])(x, x)
        options = [
            lambda: x @ gt.matrix_transpose(x),
            lambda: gt.matrix_transpose(x) @ x,
            lambda: x @ gt.reshape(x, (-1, x.shape[-1]))[0] if x.size else x,
            lambda: gt.einsum("...ij,...kj->...ik", x, x),
        ]
        return self.choose(options)()


def restrided(rng, array):
    """The same values somewhere else: contiguous, transposed, reversed, spread or broadcast."""
    choice = rng.integers(6)
    if choice == 1:
        return np.array(array, order="F")
    if not array.ndim or choice == 0:
        return array
    if choice == 2:
        return array[::-1].copy()[::-1]
    if choice == 3:
        wide = np.empty((*array.shape[:-1], 2 * array.shape[-1] + 1), array.dtype)
        wide.view(np.uint8)[...] = 255
        wide[..., 1::2] = array
        return wide[..., 1::2]
    if choice == 4 and array.shape[0] > 1 and (array == array[:1]).all():
        return np.broadcast_to(array[:1], array.shape)
    return array[..., ::-1].copy()[..., ::-1]
