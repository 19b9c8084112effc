"""Vectors that wait on the stack while a function is called do not lie across cache lines."""

import re

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.objects import llvm

pytestmark = pytest.mark.skipif(
    llvm.host().machine != "x86_64" or llvm.host().bits < 256, reason="no vectors above 16 bytes"
)

# A store of a whole vector to the stack by the instruction that allows any address.
ANYWHERE = re.compile(r"vmov(?:up[sd]|dqu\w*)\s+%[yz]mm\d+, -?\d*\(%r[sb]p")


def around_a_call(x):
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.where(x > 0, gt.square(x) * gt.log1p(x * x), gt.exp(x) * gt.erf(x))
    return tape.gradient(y, x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kernels(dtype):
    x = gt.asarray(np.linspace(-1, 1, 1000, dtype=dtype))
    text = gt.kernels_of(around_a_call(x), assembly=True)
    functions = re.split(r"\n(?=\w+:\n)", text)
    aligned = rf"andq\s+\$-{llvm.host().bits // 8}, %rsp"
    assert any(re.search(aligned, function) for function in functions)
    for function in functions:
        # Functions that keep registers have these on the stack, which LLVM never aligns.
        if not function.startswith("gradtape_keeping_"):
            assert not ANYWHERE.search(function), function


def test_small_vectors_need_nothing():
    assert llvm.aligned_stack(16) == "" == llvm.aligned_stack(8)
    assert llvm.aligned_stack(32) == llvm.aligned_stack(24) == "alignstack(32)"
    assert llvm.aligned_stack(64) == llvm.aligned_stack(256) == "alignstack(64)"
