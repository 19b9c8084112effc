"""Products with many colours are computed some colours at a time, with the same entries."""

import numpy as np
import pytest

import gradtape as gt


def arrow(x):
    """Every row reads column 0: in reverse mode no two rows share a colour."""
    return x * x[0]


def rows_and_columns(x):
    return gt.concat([x * x[0], gt.reshape(gt.sum(gt.sin(x)), (1,))])


X = np.linspace(1.0, 2.0, 300)


@pytest.mark.parametrize("f", [arrow, rows_and_columns])
@pytest.mark.parametrize(
    "limits",
    [
        {"mode": "reverse", "chunk_size": 7},
        {"mode": "reverse", "memory_budget": 20_000},
        {"mode": "forward", "chunk_size": 1},
        {"memory_budget": 3_000},
        {"chunk_size": 1},
    ],
)
def test_entries_are_those_of_the_dense_matrix(f, limits):
    found = gt.jacobian(f, sparse=True, **limits)(X)
    np.testing.assert_allclose(found.toarray(), gt.jacobian(f)(X).numpy(), rtol=1e-15, atol=0)


def test_a_hessian_in_chunks():
    def f(x):
        return gt.sum(x * x[0] ** 2) + gt.sum(gt.sin(x[1:] * x[:-1]))

    found = gt.hessian(f, sparse=True, chunk_size=2)(X)
    np.testing.assert_allclose(found.toarray(), gt.hessian(f)(X).numpy(), atol=1e-14)


def test_no_plan_holds_more_than_the_budget():
    n = 2_000
    x = np.linspace(1.0, 2.0, n)
    before = gt.counters().plans_run
    found = gt.jacobian(arrow, sparse=True, mode="reverse", memory_budget="1M")(x)
    runs = gt.counters().plans_run - before
    assert found.nnz == 2 * n - 1
    # All products at once are n x n numbers, in so many chunks of the budget.
    assert runs >= n * n * 8 // 2**20


def test_a_dense_matrix_beyond_memory_is_refused_with_size_op_and_line():
    def f(x):
        return gt.sin(gt.cos(x) * gt.sum(x))

    x = np.ones(2_000_000)
    for sparse in (False, "auto"):
        with pytest.raises(MemoryError, match=r"\(2000000, 2000000\) of sin takes 32\d+ bytes"):
            gt.jacobian(f, sparse=sparse)(x)
    with pytest.raises(MemoryError, match=r"test_colour_chunks.py:\d+"):
        gt.jacobian(f)(x)
    with pytest.raises(MemoryError, match="multiply: more than 64000000 entries"):
        gt.jacobian(f, sparse="auto")(x)


def test_a_function_is_captured_after_a_call_in_chunks():
    """Chunks give numbers and a capture needs the graph, so they are two programs."""

    def matrix(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.sin(x[1:]) * x[:-1]
        return tape.jacobian(y, x, sparse=True, chunk_size=1)

    x = gt.asarray(np.arange(1.0, 6.0))
    expected, captured = matrix(x), gt.function(matrix)
    for _ in range(3):
        captured(x)
    before = gt.counters().derivative_hits
    assert abs(captured(x) - expected).max() < 1e-12
    assert gt.counters().derivative_hits == before
