"""Every op's sparsity rule contains its numeric Jacobian, at every sample of the registry."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.ops.cases import OPS, Case, at_samples

from gradtape.autodiff import body_transforms  # noqa: F401 - fills the hooks that loops call
from gradtape.autodiff.modes import forward
from gradtape.autodiff.sparse.detect import detect
from gradtape.control import callbacks  # noqa: F401 - fills the hooks that callbacks call
from gradtape.errors import UndefinedRuleError
from gradtape.ir.node import apply, constant, outputs, placeholder
from gradtape.ir.op import REGISTRY, Op, Undefined
from gradtape.ir.program import program
from gradtape.ir.spec import spec
from gradtape.runtime.numpy_plan import NumpyPlan

DOUBLE = ("float64", "complex128")
EXACT = ("movement", "elementwise", "indexing")
# Where a derivative that exists happens to be 0 at the samples, or depends on a branch.
VALUE_DEPENDENT = {"where", "maximum", "minimum", "hypot", "relu"}


def differentiable(case: Case) -> bool:
    if isinstance(case.op.jvp, Undefined) or isinstance(case.op.vjp, Undefined):
        return False
    dtypes = [case.inputs[position].dtype for position in case.inexact]
    return bool(dtypes) and all(dtype in DOUBLE for dtype in dtypes)


def jacobian_of(targets: Any, source: Any, values: dict[Any, Any]) -> list[Any]:
    """The numeric pattern of each target by forward mode, one element of the source at a time."""
    tangent = placeholder(source.spec)
    pushed = forward(targets, [source], [tangent])
    known = [(number, node) for number, node in enumerate(pushed) if node is not None]
    found = [np.zeros((target.size, source.size), bool) for target in targets]
    written = program([node for _, node in known])
    plan = NumpyPlan(written)
    scales = (1.0, 1.0j) if source.dtype.kind == "c" else (1.0,)
    for element in range(source.size):
        for scale in scales:
            direction = np.zeros(source.size, source.dtype)
            direction[element] = scale
            given = {**values, tangent: direction.reshape(source.shape)}
            with np.errstate(all="ignore"):
                results = plan.run([given[node] for node in written.inputs])
            for (number, _), result in zip(known, results, strict=True):
                found[number][:, element] |= np.reshape(result, -1) != 0
    return found


def test_every_op_has_a_rule():
    missing = [op.name for op in OPS if not callable(op.sparsity)]
    assert not missing, f"give these a rule of ops.families.sparsity as `sparsity`: {missing}"


@at_samples(differentiable)
def test_pattern_contains_the_jacobian(cases):
    for case in cases:
        check_pattern(case.op, case.sample, case.inputs)


def check_pattern(op: Any, sample: Any, arrays: Any) -> None:
    nodes = tuple(placeholder(spec(array.shape, array.dtype)) for array in arrays)
    values = dict(zip(nodes, arrays, strict=True))
    root = apply(op, nodes, tuple(sample.params[name] for name in op.params))
    targets = outputs(root) if isinstance(root.spec, tuple) else (root,)
    targets = [target for target in targets if target.spec.inexact]
    known = {node: array for node, array in values.items() if array.dtype.kind in "iub"}
    for source in nodes:
        if not source.spec.inexact or not targets:
            continue
        patterns = detect(targets, source, known)
        blind = detect(targets, source)
        try:
            numeric = jacobian_of(targets, source, values)
        except UndefinedRuleError:
            assert sample.order == 0
            continue
        for pattern, unknown, expected in zip(patterns, blind, numeric, strict=True):
            assert pattern.shape == expected.shape
            found = pattern.toarray()
            assert not (expected & ~found).any(), "an entry is missing"
            assert not (found & ~unknown.toarray()).any(), "knowing positions adds entries"
            if op.family in EXACT and op.name not in VALUE_DEPENDENT:
                assert (expected == found).all() or exempt(op, sample)


def exempt(op: Any, sample: Any) -> bool:
    """Samples at which a derivative that is not zero everywhere is zero."""
    arrays = [np.asarray(array) for array in sample.inputs]
    return op.family == "elementwise" and any((array == 0).any() for array in arrays)


def test_default_is_dense(monkeypatch):
    x = placeholder(spec((2, 2), np.dtype(float)))
    node = apply(REGISTRY["inv"], (x,))
    monkeypatch.setattr(Op, "sparsity", None)
    (pattern,) = detect([node], x)
    assert pattern.dense
    assert pattern.notes == ("inv: it has no sparsity rule, treated as dense",)


def test_constants_have_no_pattern():
    x = placeholder(spec((2,), np.dtype(float)))
    (pattern,) = detect([constant(1, spec((3,), np.dtype(float)))], x)
    assert pattern.shape == (3, 2)
    assert pattern.nnz == 0
