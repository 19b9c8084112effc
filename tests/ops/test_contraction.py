"""Contractions against NumPy, their derivatives, the programs they become, and their errors."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import ShapeError
from gradtape.ir.op import REGISTRY
from gradtape.ops.matrices.contraction import matmul
from gradtape.ops.matrices.einsum import einsum
from gradtape.ops.matrices.products import dot, inner, kron, outer, tensordot, vecdot
from gradtape.testing import check_gradients

RNG = np.random.default_rng(0)
DTYPES = ["float64", "complex128"]


def values(shape, dtype="float64"):
    kind = np.dtype(dtype).kind
    if kind in "iu":
        return np.asarray(RNG.integers(0, 5, shape), dtype)
    if kind == "b":
        return np.asarray(RNG.integers(0, 2, shape) > 0)
    found = RNG.normal(size=shape)
    return np.asarray(found + 1j * RNG.normal(size=shape) if kind == "c" else found, dtype)


def assert_same(found, expected):
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


MATMUL_SHAPES = [
    ((2, 3), (3, 4)),
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((4, 2, 3), (3, 2)),
    ((2, 3), (4, 3, 2)),
    ((4, 1, 2, 3), (5, 3, 2)),
    ((4, 2, 3), (3,)),
    ((3,), (4, 3, 2)),
    ((2, 0), (0, 3)),
    ((0,), (0,)),
    ((0, 2, 3), (3, 2)),
]


@pytest.mark.parametrize("dtype", [*DTYPES, "float32", "complex64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("shapes", MATMUL_SHAPES, ids=str)
def test_matmul_agrees_with_numpy(shapes, dtype):
    a, b = (values(shape, dtype) for shape in shapes)
    assert_same(matmul(a, b), np.matmul(a, b))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", MATMUL_SHAPES, ids=str)
def test_matmul_derivatives(shapes, dtype):
    check_gradients(matmul, *(values(shape, dtype) for shape in shapes))


def test_matmul_promotes():
    a, b = values((2, 3), "int32"), values((3, 2), "float32")
    assert_same(matmul(a, b), np.matmul(a, b))
    check_gradients(matmul, values((2, 3)), values((3, 2), "complex128"))


def test_operator_records_matmul():
    a, b = gt.asarray(values((2, 3))), values((3, 2))
    assert_same(a @ b, a.numpy() @ b)
    assert_same(b @ a, b @ a.numpy())


def test_matmul_of_transposed_views():
    a, b = values((3, 2)), values((4, 3))
    check_gradients(lambda x, y: matmul(gt.asarray(x).T, gt.asarray(y).T), a, b)


def ops_of(*tensors):
    return [node.op.name for node in gt.program_of(*tensors).nodes]


def test_matmul_gradient_is_matmuls_of_transposed_operands():
    a, b = gt.asarray(values((2, 3))), gt.asarray(values((3, 4)))
    with gt.GradientTape() as tape:
        tape.watch([a, b])
        y = a @ b
    gradients = tape.gradient(y, [a, b], output_gradients=gt.asarray(values((2, 4))))
    found = ops_of(*gradients)
    assert sorted(set(found)) == ["matmul", "permute_dims"]
    assert found.count("matmul") == 2


def test_gradient_of_shared_weights_is_one_product():
    x, w = gt.asarray(values((5, 2, 3))), gt.asarray(values((3, 4)))
    with gt.GradientTape() as tape:
        tape.watch(w)
        y = x @ w
    gradient = tape.gradient(y, w, output_gradients=gt.asarray(values((5, 2, 4))))
    assert "sum" not in ops_of(gradient)


def test_matmul_keeps_nan_of_a_branch_not_taken_out():
    x = gt.asarray([[1.0, 2.0], [0.0, 0.0]])
    w = gt.asarray([[1.0], [1.0]])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.where(gt.asarray([[True], [False]]), gt.sqrt(x) @ w, 0.0)
    gradient = tape.gradient(y, x).numpy()
    np.testing.assert_allclose(gradient, [[0.5, 0.5 / np.sqrt(2.0)], [0.0, 0.0]])


EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk->ki", (2, 3), (3, 4)),
    ("ij,kj", (2, 3), (4, 3)),
    ("ji,jk", (3, 2), (3, 4)),
    ("i,i", (3,), (3,)),
    ("i,j->ji", (2,), (3,)),
    ("ij,ij->ij", (2, 3), (2, 3)),
    ("ij,ij", (2, 3), (2, 3)),
    ("ij,kl->ik", (2, 3), (3, 2)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("iij->ji", (2, 2, 3)),
    ("ijij->ji", (2, 3, 2, 3)),
    ("iii->i", (2, 2, 2)),
    ("ij->", (2, 3)),
    ("ij->ji", (2, 3)),
    ("ij", (2, 3)),
    ("ba", (2, 3)),
    ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)),
    ("bij,bkj->bik", (2, 2, 3), (2, 4, 3)),
    ("bij,bj->bi", (2, 2, 3), (2, 3)),
    ("ibj,jkb->kbi", (2, 3, 2), (2, 2, 3)),
    ("ijk,jil->kl", (2, 3, 2), (3, 2, 2)),
    ("ijk,kji->", (2, 3, 2), (2, 3, 2)),
    ("ij,jk,kl->il", (2, 3), (3, 2), (2, 4)),
    ("ijk,kl,lm->mi", (2, 3, 2), (2, 4), (4, 3)),
    ("i,i,i->i", (3,), (3,), (3,)),
    ("ij,jk,kl,li->", (2, 3), (3, 2), (2, 2), (2, 2)),
    ("ijj,jk->k", (2, 3, 3), (3, 2)),
    ("...ij,...jk->...ik", (2, 2, 3), (2, 3, 2)),
    ("...ij,...jk->...ik", (4, 1, 2, 3), (3, 3, 2)),
    ("...ij,jk", (2, 2, 3), (3, 2)),
    ("i...,i...->...", (2, 3), (2, 3)),
    ("i...j->j...", (2, 3, 2)),
    ("...,...->...", (2, 1), (3,)),
    ("ij,jk->ik", (2, 1), (3, 4)),
    ("ij,ij->i", (2, 3), (1, 3)),
    (",i->i", (), (3,)),
    (",->", (), ()),
    ("ij,jk->ik", (2, 0), (0, 3)),
    ("ij->i", (2, 0)),
    (" i j , j -> i ", (2, 3), (3,)),
]


@pytest.mark.parametrize("case", EINSUMS, ids=str)
def test_einsum_agrees_with_numpy(case):
    subscripts, *shapes = case
    for dtype in (*DTYPES, "float32", "int32", "int64"):
        arrays = [values(shape, dtype) for shape in shapes]
        assert_same(einsum(subscripts, *arrays), np.einsum(subscripts, *arrays))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", EINSUMS, ids=str)
def test_einsum_derivatives(case, dtype):
    subscripts, *shapes = case
    arrays = [values(shape, dtype) for shape in shapes]
    check_gradients(lambda *a: einsum(subscripts, *a), *arrays)


def test_einsum_promotes_all_operands_first():
    arrays = [values((2,), "int32"), values((2,), "int32"), values((2,), "float64")]
    assert_same(einsum("i,i,i->i", *arrays), np.einsum("i,i,i->i", *arrays))


def test_einsum_becomes_matmul_where_axes_fall_into_place():
    a, b = gt.asarray(values((5, 2, 3))), gt.asarray(values((5, 4, 3)))
    assert ops_of(einsum("bij,bkj->bik", a, b)) == ["permute_dims", "matmul"]
    assert ops_of(einsum("bij,bij->bij", a, a)) == ["multiply"]
    assert ops_of(einsum("bij,bkj->ik", a, b)) == ["einsum"]


def test_einsum_of_other_letters_is_the_same_program():
    a, b = gt.asarray(values((5, 2, 3))), gt.asarray(values((5, 4, 3)))
    einsum("bij,bkj->ik", a, b).numpy()
    before = gt.counters().plans_built
    einsum("zyx,zwx->yw", a, b).numpy()
    assert gt.counters().plans_built == before


def test_results_may_be_written_to():
    a, b = values((2, 3)), values((3, 4))
    for x in (a @ gt.asarray(b), einsum("ij,jk->ki", a, b), kron(a, b), tensordot(a, b, axes=1)):
        x[0, 0] = 7.0
        assert x.tolist()[0][0] == 7.0


def test_einsum_of_one_operand_gives_a_tensor_of_its_own():
    x = gt.asarray(values((2, 3)))
    assert einsum("ij->ij", x) is not x


def test_einsum_keeps_nan_of_a_branch_not_taken_out():
    x = gt.asarray([[1.0, 2.0], [0.0, 0.0]])
    w = gt.asarray(values((2, 2, 3)))
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.where(gt.asarray([True, False]), einsum("ij,ijk->i", gt.sqrt(x), w), 0.0)
    assert np.isfinite(tape.gradient(y, x).numpy()).all()


@pytest.mark.parametrize("dtype", [*DTYPES, "int32"])
@pytest.mark.parametrize(
    ("function", "reference", "shapes", "options"),
    [
        (tensordot, np.tensordot, [(2, 3, 4), (3, 4, 2)], {}),
        (tensordot, np.tensordot, [(2, 3), (4,)], {"axes": 0}),
        (tensordot, np.tensordot, [(2, 3), (3, 2)], {"axes": 1}),
        (tensordot, np.tensordot, [(2, 3, 4), (4, 3, 2)], {"axes": ((1, -1), (1, 0))}),
        (tensordot, np.tensordot, [(2, 3), (2, 3)], {"axes": ((0, 1), (0, 1))}),
        (tensordot, np.tensordot, [(), ()], {"axes": 0}),
        (vecdot, np.vecdot, [(2, 3), (3,)], {}),
        (vecdot, np.vecdot, [(2, 1, 3), (4, 3)], {}),
        (vecdot, np.vecdot, [(3, 2), (4, 3, 2)], {"axis": -2}),
        (vecdot, np.vecdot, [(3,), (3,)], {}),
        (vecdot, np.vecdot, [(2, 0), (0,)], {}),
        (inner, np.inner, [(2, 3), (4, 3)], {}),
        (inner, np.inner, [(2, 3), ()], {}),
        (outer, np.outer, [(2,), (3,)], {}),
        (outer, np.outer, [(0,), (3,)], {}),
        (kron, np.kron, [(2, 3), (3, 2)], {}),
        (kron, np.kron, [(3,), (2, 2)], {}),
        (kron, np.kron, [(), (2,)], {}),
        (dot, np.dot, [(2, 3, 4), (2, 4, 3)], {}),
        (dot, np.dot, [(2, 2, 3), (3,)], {}),
        (dot, np.dot, [(2, 3), (3, 2)], {}),
        (dot, np.dot, [(2, 3), ()], {}),
    ],
)
def test_products(function, reference, shapes, options, dtype):
    arrays = [values(shape, dtype) for shape in shapes]
    assert_same(function(*arrays, **options), reference(*arrays, **options))
    if dtype != "int32":
        check_gradients(lambda *a: function(*a, **options), *arrays)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: matmul(np.ones((2, 3)), np.ones((4, 5))),
            "matmul: shapes (2, 3) and (4, 5) do not match (axis 1: 3, axis 0: 4). "
            "Transpose or reshape one of them.",
        ),
        (
            lambda: matmul(np.ones((2, 2, 3)), np.ones((4, 3, 2))),
            "matmul: shapes (2,) and (4,) do not broadcast (axis 0: 2 and 4). Reshape one of them.",
        ),
        (
            lambda: matmul(np.ones((2, 3)), 2.0),
            "matmul: shapes (2, 3) and (): a 0-d operand has no axis to sum over. Use multiply.",
        ),
        (
            lambda: einsum("ij,jk->ik", np.ones((2, 3)), np.ones((4, 5))),
            "einsum: label 'j' is 3 in operand 0 and 4 in operand 1 (shapes (2, 3) and (4, 5)). "
            "Give the axes the same length.",
        ),
        (
            lambda: einsum("ij,jk->ik", np.ones((2, 3)), np.ones(3)),
            "einsum: operand 1 has shape (3,) and subscripts 'jk', which name 2 axes. "
            "Name each axis, or write '...'.",
        ),
        (
            lambda: tensordot(np.ones((2, 3)), np.ones((4, 5)), axes=1),
            "tensordot: shapes (2, 3) and (4, 5) do not match (axis 1: 3, axis 0: 4). "
            "Transpose or reshape one of them.",
        ),
        (
            lambda: tensordot(np.ones((2, 3)), np.ones(3), axes=2),
            "tensordot: axes=2 for shapes (2, 3) and (3,). Choose 0 to 1.",
        ),
        (
            lambda: vecdot(np.ones((2, 3)), np.ones((2, 1))),
            "vecdot: shapes (2, 3) and (2, 1) do not match (axis 1: 3, axis 1: 1). "
            "Transpose or reshape one of them.",
        ),
    ],
)
def test_shape_errors(call, message):
    with pytest.raises(ShapeError) as caught:
        call()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("subscripts", "message"),
    [
        ("ij", "names 1 operands and 2 were given"),
        ("ij,jk->il", "label 'l' of the result is in no operand"),
        ("ij,jk->ii", "repeats a label"),
        ("i1,jk->ik", "'1' in 'i1,jk->ik' is not a label"),
        ("...j,jk->k", "the result has none"),
    ],
)
def test_wrong_subscripts(subscripts, message):
    with pytest.raises(ValueError, match="einsum") as caught:
        einsum(subscripts, np.ones((2, 3)), np.ones((3, 2)))
    assert message in str(caught.value)


def test_ops_are_kept_for_the_backward_pass():
    assert all(REGISTRY[name].expensive for name in ("matmul", "einsum"))
