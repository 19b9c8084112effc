"""How far rounding may move the results of a program: tier 0, with every op's result nudged.

A compiled program computes the same ops with other roundings: vector functions are a few units in
the last place (ulp) off, sums are taken in another order, a product and a sum may share one
rounding. What that can do to a result depends on what follows, above all on cancellation. So tier 0
is run again and again with each inexact value moved by an ulp, up or down at random, with sums in
another order and with some products left unrounded: the spread of its results tells.
"""

from dataclasses import dataclass

import numpy as np

# Given the same operands, both tiers give the same bits.
EXACT = frozenset((
    "cast", "sqrt", "reciprocal", "rsqrt", "divide", "negative", "positive", "floor", "ceil",
    "trunc", "round", "relu", "isnan", "isinf", "isfinite", "signbit", "copysign", "nextafter",
    "maximum", "minimum", "where", "identity", "stop_gradient", "real", "imag", "conj", "sign",
    "max", "min", "max_mask", "min_mask", "argmax", "argmin", "any", "all", "order_statistic",
    "cumulative_sum", "cumulative_prod", "linear_recurrence", "full", "pick",
    "remainder", "floor_divide",
))  # fmt: skip
EXACT_FAMILIES = frozenset(("movement", "indexing", "creation", "sorting", "structure"))
# For complex numbers these are not exact: each part is a sum of products.
INEXACT_IF_COMPLEX = frozenset(("sqrt", "reciprocal", "rsqrt", "divide", "sign"))
# Products whose parts are sums of two real products, if they are complex.
PRODUCTS = frozenset(("multiply", "square"))
# Samples move values by one ulp; a few by more, to see the jumps that lie further away.
FAR = 8


@dataclass
class Sample:
    """The outputs of one run in which values were moved by up to `ulps`."""

    ulps: int
    outputs: list


def parts(array):
    """A complex array as one of floats, twice as long; any other as it is."""
    array = np.ascontiguousarray(array)
    if array.dtype.kind != "c":
        return array.reshape(-1)
    return array.reshape(-1).view(array.real.dtype)


def is_exact(node):
    if node.dtype.kind not in "fc" or node.op.family in EXACT_FAMILIES:
        return True
    if node.op.name == "abs":
        return node.inputs[0].dtype.kind != "c"
    return node.op.name in EXACT and not (
        node.dtype.kind == "c" and node.op.name in INEXACT_IF_COMPLEX
    )


def moved(array, ulps, rng, size=None):
    """The array with each element some ulps up or down: of itself, or of the given size.

    Zeros stay, for an exact zero is exact in every tier. The parts of a complex number move by
    ulps of the larger part: rounding a product moves them so.
    """
    array = np.asarray(array)
    if not array.size or array.dtype.kind not in "fc":
        return array
    if array.dtype.kind == "c":
        larger = np.maximum(np.abs(array.real), np.abs(array.imag))
        size = larger if size is None else size
        result = np.empty_like(array)
        result.real = moved(array.real, ulps, rng, size)
        result.imag = moved(array.imag, ulps, rng, size)
        return result
    step = np.spacing(np.abs(array) if size is None else np.asarray(size, array.dtype))
    sign = rng.integers(0, 2, array.shape) * 2 - 1
    result = array + (ulps * sign).astype(array.dtype) * step
    if size is None:
        usable = np.isfinite(array) & (array != 0)
    else:
        usable = np.isfinite(array) & np.isfinite(step) & (size != 0)
    return np.where(usable, result, array).astype(array.dtype)


class Disturbed:
    """A program run op by op, with values moved.

    With `each_use` a value is moved anew for each op that reads it, as when it is computed twice,
    in one tier for the forward pass and in the other for the backward pass.
    """

    def __init__(self, program, each_use=False):
        self.program = program
        self.each_use = each_use

    def run(self, inputs, seed, ulps):
        rng = np.random.default_rng(seed)
        contract = bool(seed % 2)
        values, exact = {}, {}
        with np.errstate(all="ignore"):
            for node, value in zip(self.program.inputs, inputs, strict=True):
                array = np.asarray(getattr(value, "array", value)).astype(node.dtype)
                exact[node] = node.dtype.kind not in "fc"
                values[node] = array if exact[node] else moved(array, ulps, rng)
            for node in self.program.nodes:
                operands = [self._operand(p, values, exact, ulps, rng) for p in node.inputs]
                exact[node] = type(node.spec) is tuple or is_exact(node)
                if contract and node.op.name in ("add", "subtract") and node.dtype.kind == "f":
                    found = contracted(node, operands, values)
                elif not contract and node.op.name in PRODUCTS and node.dtype.kind == "c":
                    found = moved(by_parts(*operands), ulps, rng)
                else:
                    found = result(node, operands, ulps, rng)
                    if not exact[node]:
                        found = moved(found, ulps, rng)
                values[node] = found
        outputs = [np.array(values[node], node.dtype) for node in self.program.outputs]
        return Sample(ulps, outputs)

    def _operand(self, node, values, exact, ulps, rng):
        value = values[node]
        return moved(value, ulps, rng) if self.each_use and not exact[node] else value


def contracted(node, operands, values):
    """A sum with products that were not rounded: what a fused multiply-add gives."""
    wide = np.longdouble if node.dtype == np.float64 else np.float64
    terms = []
    for parent, operand in zip(node.inputs, operands, strict=True):
        if parent.op.name == "multiply":
            terms.append(np.multiply(*[np.asarray(values[p], wide) for p in parent.inputs]))
        elif parent.op.name == "square":
            terms.append(np.square(np.asarray(values[parent.inputs[0]], wide)))
        else:
            terms.append(np.asarray(operand, wide))
    return (terms[0] + terms[1] if node.op.name == "add" else terms[0] - terms[1]).astype(
        node.dtype
    )


def by_parts(x, y=None):
    """A product of complex numbers, or a square, in which every real product is rounded.

    NumPy shares roundings in its vectors and not in what is left over. Where products overflow,
    the one gives an infinity and the other NaN.
    """
    y = x if y is None else y
    real = x.real * y.real - x.imag * y.imag
    found = np.empty(np.shape(real), np.result_type(x, y))
    found.real, found.imag = real, x.real * y.imag + x.imag * y.real
    return found


def result(node, operands, ulps, rng):
    """One op; sums and products of many terms in an order of their own."""
    name = node.op.name
    if name in ("sum", "prod") and node.dtype.kind in "fc" and operands[0].size:
        return reordered(node, operands[0], ulps, rng)
    found = node.op.numpy(*operands, **node.keywords)
    if name in ("matmul", "einsum") and node.dtype.kind in "fc":
        # A dot product in any order is off by ulps of the sum of the terms' magnitudes.
        size = node.op.numpy(*[np.abs(operand) for operand in operands], **node.keywords)
        if node.dtype.kind == "c":
            # BLAS multiplies sums by 1 + 0i, or does not: of infinities that makes NaN.
            keep = np.isfinite(found) | bool(rng.integers(2))
            found = np.where(keep, found, complex(np.nan, np.nan)).astype(node.dtype)
        return moved(found, ulps, rng, size)
    return found


def reordered(node, x, ulps, rng):
    axes = node.params[0]
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    rows = x.transpose([*kept, *axes]).reshape([x.shape[axis] for axis in kept] + [-1])
    rows = rows[..., rng.permutation(rows.shape[-1])].astype(node.dtype)
    if node.op.name == "prod":
        found = np.prod(rows, axis=-1)
    else:
        # On the way the sum may have been larger than in the end.
        running = np.cumsum(rows, axis=-1)
        found = running[..., -1]
        reached = np.maximum(np.abs(running.real), np.abs(running.imag)).max(axis=-1)
        found = moved(found, ulps, rng, reached)
    return np.reshape(found, node.shape)


def samples(program, inputs, count, seed=0, each_use=False):
    """So many disturbed runs, half of them far."""
    disturbed = Disturbed(program, each_use)
    return [disturbed.run(inputs, seed + n, FAR if n % 4 > 1 else 1) for n in range(count)]


def allowed(expected, runs, position):
    """The distance from `expected` within which results must be: FAR times the spread.

    Infinite where a disturbed run is infinite or NaN and the expected result is not, or the other
    way round.
    """
    expected = parts(expected)
    wide = np.zeros(expected.shape, np.float64)
    with np.errstate(all="ignore"):
        for run in runs:
            found = distance(expected, parts(run.outputs[position]))
            wide = np.maximum(wide, found * (FAR // run.ulps))
    if expected.dtype.kind == "f":
        # Where results underflow there is no relative precision.
        wide = wide + FAR * float(np.finfo(expected.dtype).smallest_subnormal)
    return wide


def distance(expected, found):
    if expected.dtype.kind == "b":
        return np.where(found != expected, np.inf, 0.0)
    difference = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    if expected.dtype.kind in "iu":
        return difference
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    both = np.isfinite(found) & np.isfinite(expected)
    return np.where(same, 0.0, np.where(both, difference, np.inf))


def outside(expected, got, limit):
    """Which elements are further from what is expected than allowed."""
    expected, got = parts(expected), parts(got)
    with np.errstate(all="ignore"):
        return ~((distance(expected, got) <= limit) | np.isinf(limit))


def differing_bits(expected, got):
    """Which elements differ in any bit; NaNs are all alike."""
    expected, got = parts(expected), parts(got)
    same = (expected == got) | ((expected != expected) & (got != got))
    if expected.dtype.kind == "f":
        same &= (np.signbit(expected) == np.signbit(got)) | np.isnan(expected)
    return ~same
