"""Convolutions of spread-out and padded operands, beside plain loops over all zeros."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import gradtape as gt
from gradtape.compiler import thread_team
from gradtape.ops.families.convolution_phases import Line, blocks, phases, tap_blocks
from gradtape.ops.matrices.convolution import convolve
from gradtape.runtime import tiers
from gradtape.testing import check_gradients

lines = st.builds(
    Line,
    length=st.integers(0, 7),
    window=st.integers(1, 5),
    number=st.integers(1, 9),
    stride=st.integers(1, 4),
    dilation=st.integers(1, 4),
    spread=st.integers(1, 4),
    before=st.integers(-4, 6),
)


def pairs_read(line):
    """Each output and position of the window that read an element, with the element."""
    found = {}
    for p, q in itertools.product(range(line.number), range(line.window)):
        place = line.stride * p + line.dilation * q - line.before
        if place % line.spread == 0 and 0 <= place // line.spread < line.length:
            found[p, q] = place // line.spread
    return found


def pairs_of(found):
    """The same, as phases say; none of them comes twice."""
    pairs = {}
    for phase in found:
        for p, q in itertools.product(range(phase.outputs.number), range(phase.taps.number)):
            at = (
                phase.outputs.start + p * phase.outputs.step,
                phase.taps.start + q * phase.taps.step,
            )
            assert at not in pairs
            pairs[at] = phase.first + p * phase.by_output + q * phase.by_tap
    return pairs


@given(lines)
def test_phases_have_each_product_once_and_no_zero(line):
    found = phases(line)
    assert pairs_of(found) == pairs_read(line)
    outputs = [
        each.outputs.start + n * each.outputs.step
        for each in found
        for n in range(each.outputs.number)
    ]
    assert sorted(outputs) == list(range(line.number))


@given(lines)
def test_runs_of_positions_have_each_product_once(line):
    first, *_ = found = [phase for (phase,) in tap_blocks([line])]
    assert pairs_of(found) == pairs_read(line)
    # The first writes all outputs, to which the others add.
    assert first.outputs.number == line.number


def test_a_stride_of_two_leaves_out_three_quarters():
    """The derivative by the input of a 3x3 convolution with strides of 2, on even lengths."""
    line = Line(length=7, window=3, number=14, stride=1, dilation=1, spread=2, before=2)
    work = sum(
        np.prod([phase.outputs.number * phase.taps.number for phase in block])
        for block in blocks([line, line])
    )
    assert work <= 14 * 14 * 9 / 4


def with_zeros(x, spreads, padding):
    """The elements with zeros between and around them."""
    for axis, (spread, (low, high)) in enumerate(zip(spreads, padding, strict=True), start=2):
        shape = list(x.shape)
        shape[axis] = max(spread * (shape[axis] - 1) + 1, 0)
        wide = np.zeros(shape, x.dtype)
        wide[(slice(None),) * axis + (slice(None, None, spread),)] = x
        widths = [(0, 0)] * x.ndim
        widths[axis] = (max(low, 0), max(high, 0))
        wide = np.pad(wide, widths)
        kept = slice(max(-low, 0), wide.shape[axis] - max(-high, 0))
        x = wide[(slice(None),) * axis + (kept,)]
    return x


def by_loops(x, kernel, strides, dilations, spreads, padding):
    """The definition, one position of the window after the other."""
    x, window = with_zeros(x, spreads, padding), kernel.shape[1:-2]
    counts = [
        (n - (w - 1) * d - 1) // s + 1
        for n, w, s, d in zip(x.shape[2:-1], window, strides, dilations, strict=True)
    ]
    total = np.zeros((*x.shape[:2], *counts, kernel.shape[-1]), x.dtype)
    for at in itertools.product(*map(range, window)):
        part = x[(
            slice(None), slice(None),
            *(slice(q * d, q * d + (n - 1) * s + 1, s)
              for q, d, n, s in zip(at, dilations, counts, strides, strict=True)),
        )]  # fmt: skip
        total += np.einsum("gb...c,gco->gb...o", part, kernel[(slice(None), *at)]).astype(x.dtype)
    return total


def random_case(rng, dtype):
    """Any strides, dilations, spreads, paddings and groups, or None if no window fits."""
    spatial = int(rng.integers(1, 4))
    draw = lambda low, high: tuple(int(n) for n in rng.integers(low, high, spatial))  # noqa: E731
    window, lengths = draw(1, 4), draw(1, 7)
    params = draw(1, 4), draw(1, 4), draw(1, 4), tuple(zip(draw(-2, 4), draw(-2, 4), strict=True))
    # From single channels, which are lanes, to columns of more than a vector.
    groups, batch = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    inside, outside = int(rng.choice([1, 2, 5, 16])), int(rng.choice([1, 2, 3, 17, 40]))
    if rng.integers(3) == 0:
        groups, inside, outside = int(rng.integers(2, 40)), 1, 1
    wide = [
        e * (n - 1) + 1 + sum(pair) - (w - 1) * d
        for n, w, d, e, pair in zip(lengths, window, *params[1:], strict=True)
    ]
    if min(wide) < 1:
        return None
    shapes = (groups, batch, *lengths, inside), (groups, *window, inside, outside)
    return *(drawn(rng, shape, dtype) for shape in shapes), params


def drawn(rng, shape, dtype):
    kind = np.dtype(dtype).kind
    if kind in "iu":
        return rng.integers(0 if kind == "u" else -90, 90, shape).astype(dtype)
    found = rng.standard_normal(shape)
    return (found + (1j * rng.standard_normal(shape) if kind == "c" else 0)).astype(dtype)


@pytest.fixture(params=["off", "always"])
def tier(request, monkeypatch):
    monkeypatch.setattr(tiers, "MODE", request.param)
    return request.param


@pytest.fixture(params=[1, 3])
def some_threads(request):
    before = thread_team.get_num_threads()
    thread_team.set_num_threads(request.param)
    yield
    thread_team.set_num_threads(before)


DTYPES = ["float32", "float64", "complex64", "complex128", "int8", "uint16", "int32", "uint64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(12))
def test_any_steps(tier, seed, dtype):
    case = random_case(np.random.default_rng(1000 * seed + DTYPES.index(dtype)), dtype)
    if case is None:
        return
    x, kernel, params = case
    expected = by_loops(x, kernel, *params)
    before = gt.counters()
    got = convolve(gt.asarray(x), gt.asarray(kernel), *params).numpy()
    after = gt.counters()
    if x.dtype.kind in "iu":
        np.testing.assert_array_equal(got, expected)
    else:
        tolerance = 2e-4 if np.finfo(dtype).bits == 32 else 1e-11
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=30 * tolerance)
    assert after.python_calls == before.python_calls
    assert after.compile_failures == before.compile_failures


@pytest.mark.parametrize("seed", range(30))
def test_derivatives_of_any_steps(tier, some_threads, seed):
    """The inner product with a cotangent has the slopes that the definition says."""
    rng = np.random.default_rng(500 + seed)
    case = random_case(rng, "float64")
    if case is None:
        return
    x, kernel, params = case
    g = rng.standard_normal(by_loops(x, kernel, *params).shape)

    def total(x, kernel):
        return gt.sum(convolve(x, kernel, *params) * gt.asarray(g))

    before = gt.counters()
    by_x, by_kernel = gt.grad(total, (0, 1))(gt.asarray(x), gt.asarray(kernel))
    dx, dk = rng.standard_normal(x.shape), rng.standard_normal(kernel.shape)
    along_x = np.sum(by_loops(dx, kernel, *params) * g)
    along_kernel = np.sum(by_loops(x, dk, *params) * g)
    np.testing.assert_allclose(np.sum(by_x.numpy() * dx), along_x, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.sum(by_kernel.numpy() * dk), along_kernel, rtol=1e-9, atol=1e-9)
    after = gt.counters()
    assert after.python_calls == before.python_calls
    assert after.compile_failures == before.compile_failures


STEPS = [
    ((2,), (1,), (1,), ((1, 1),)),
    ((1,), (1,), (2,), ((2, 1),)),
    ((3,), (2,), (1,), ((0, 2),)),
    ((2,), (2,), (3,), ((-1, 3),)),
]


@pytest.mark.slow
@pytest.mark.parametrize("params", STEPS)
@pytest.mark.parametrize("shapes", [((1, 2, 6, 2), (1, 3, 2, 3)), ((3, 2, 6, 1), (3, 3, 1, 1))])
def test_second_derivatives(tier, params, shapes):
    rng = np.random.default_rng(0)
    x, kernel = (rng.standard_normal(shape) for shape in shapes)
    check_gradients(lambda x, k: gt.sum(gt.sin(convolve(x, k, *params))), x, kernel, order=2)


@pytest.mark.parametrize("shapes", [((1, 0, 4, 2), (1, 3, 2, 3)), ((1, 2, 4, 0), (1, 3, 0, 3)),
                                    ((1, 2, 4, 2), (1, 3, 2, 0)), ((0, 2, 4, 1), (0, 3, 1, 1)),
                                    ((1, 2, 0, 2), (1, 3, 2, 3))])  # fmt: skip
def test_without_elements(tier, shapes):
    x, kernel = map(np.ones, shapes)
    params = (2,), (1,), (1,), ((2, 2),)
    found = convolve(gt.asarray(x), gt.asarray(kernel), *params).numpy()
    np.testing.assert_array_equal(found, by_loops(x, kernel, *params))
    slopes = gt.grad(lambda x, k: gt.sum(convolve(x, k, *params)), (0, 1))
    by_x, by_kernel = slopes(gt.asarray(x), gt.asarray(kernel))
    assert by_x.numpy().shape == x.shape
    assert by_kernel.numpy().shape == kernel.shape
    assert not np.any(by_kernel.numpy()) or x.size


def test_a_constant_cotangent_is_no_call(monkeypatch):
    """The cotangent of a sum is one number, which nests read at each element."""
    monkeypatch.setattr(tiers, "MODE", "always")
    rng = np.random.default_rng(0)
    x, kernel = rng.standard_normal((1, 4, 9, 3)), rng.standard_normal((1, 3, 3, 5))
    before = gt.counters()
    slopes = gt.grad(lambda x, k: gt.sum(convolve(x, k, (2,), (1,))), (0, 1))
    by_x, by_kernel = (each.numpy() for each in slopes(gt.asarray(x), gt.asarray(kernel)))
    assert gt.counters().python_calls == before.python_calls
    ones = np.ones((1, 4, 4, 5))
    expected = np.stack([x[0, :, q : q + 7 : 2].sum((0, 1)) for q in range(3)])
    np.testing.assert_allclose(by_kernel[0], np.repeat(expected[:, :, None], 5, 2), rtol=1e-12)
    turned = np.swapaxes(kernel[:, ::-1], -1, -2)
    np.testing.assert_allclose(
        by_x, by_loops(ones, turned, (1,), (1,), (2,), ((2, 2),)), rtol=1e-12
    )


def test_zeros_between_and_around_hide_no_number(tier):
    """Infinities reach the results that read them, and no zero is multiplied with one."""
    x, kernel = np.ones((1, 1, 3, 1)), np.ones((1, 2, 1, 1))
    x[0, 0, 1, 0], kernel[0, 1, 0, 0] = np.inf, 2.0
    found = convolve(gt.asarray(x), gt.asarray(kernel), (1,), (1,), (2,), ((1, 1),)).numpy()
    np.testing.assert_array_equal(found[0, 0, :, 0], [2.0, 1.0, np.inf, np.inf, 2.0, 1.0])


def test_groups_are_not_copied_apart(monkeypatch):
    """A result that is only read with its groups last is written so: no loop copies it."""
    monkeypatch.setattr(tiers, "MODE", "always")
    rng = np.random.default_rng(3)
    x, kernel = rng.standard_normal((4, 2, 7, 3)), rng.standard_normal((4, 3, 3, 5))

    def last(x, kernel):
        moved = gt.permute_dims(convolve(x, kernel, (1,), (1,)), (1, 2, 0, 3))
        return gt.reshape(moved, (2, 5, 20))

    names = ("kernels_compiled", "kernels_loaded", "kernels_reused")
    before = gt.counters()
    found = last(gt.asarray(x), gt.asarray(kernel)).numpy()
    after = gt.counters()
    assert all(getattr(after, name) == getattr(before, name) for name in names)
    expected = by_loops(x, kernel, (1,), (1,), (1,), ((0, 0),))
    np.testing.assert_allclose(found, expected.transpose(1, 2, 0, 3).reshape(2, 5, 20), rtol=1e-11)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 70), st.integers(1, 3), st.integers(1, 9), st.booleans())
def test_single_channels_and_few_columns(groups, outside, inside, spread):
    """Lanes, inner products and tiles give the same numbers as NumPy."""
    rng = np.random.default_rng(groups)
    if inside == 1:
        outside = 1
    x, kernel = (
        drawn(rng, (groups, 3, 20, inside), "float32"),
        drawn(rng, (groups, 4, inside, outside), "float32"),
    )
    params = (1,), (1,), (2 if spread else 1,), ((2, 1),)
    found = {}
    for mode in ("off", "always"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tiers, "MODE", mode)
            found[mode] = convolve(gt.asarray(x), gt.asarray(kernel), *params).numpy()
    np.testing.assert_allclose(found["always"], found["off"], rtol=2e-4, atol=2e-4)
