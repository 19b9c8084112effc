"""Colourings: known counts, validity on random patterns, and decompression that gives all back."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st

from gradtape.autodiff.sparse import colouring, loop_runner
from gradtape.autodiff.sparse.choose_colouring import (
    METHODS,
    SYMMETRIC_METHODS,
    Coloured,
    colour,
    colour_split,
    colour_symmetric,
    star_positions,
    substitution,
)
from gradtape.autodiff.sparse.colouring import (
    ORDERS,
    Colours,
    colour_columns,
    colour_vertices,
    order_columns,
)
from gradtape.autodiff.sparse.grid_colouring import keeps_apart, lattice_colours
from gradtape.autodiff.sparse.pattern import Pattern, pattern_of
from gradtape.errors import ShapeError, SparsityError


def path(n):
    return sp.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1])


def tridiagonal(n):
    return pattern_of(path(n) + sp.eye_array(n))


def grid(*lengths):
    """The stencil of nearest neighbours: three, five or seven points."""
    total = sp.eye_array(int(np.prod(lengths)))
    for axis in range(len(lengths)):
        factors = [path(n) if at == axis else sp.eye_array(n) for at, n in enumerate(lengths)]
        term = factors[0]
        for factor in factors[1:]:
            term = sp.kron(term, factor)
        total = total + term
    return pattern_of(total)


def box(rows, columns):
    """Nine points: neighbours along both axes at once."""
    return pattern_of(
        sp.kron(path(rows) + sp.eye_array(rows), path(columns) + sp.eye_array(columns))
    )


def arrow(n):
    found = np.eye(n)
    found[0] = found[:, 0] = 1
    return pattern_of(found)


def recovered(coloured, rng):
    """Whether random values come back from their products with the seeds."""
    pattern = coloured.pattern
    matrix = pattern.with_data(rng.normal(size=pattern.nnz))
    if coloured.method in SYMMETRIC_METHODS:
        matrix = (matrix + matrix.T).tocsr()
        matrix.sort_indices()
    full = matrix.toarray()
    forward = coloured.forward_seeds(float) @ full.T
    reverse = coloured.reverse_seeds(float) @ full
    if coloured.method in SYMMETRIC_METHODS:
        data = coloured.decompress(forward)
    else:
        data = coloured.decompress(forward, reverse)
    dense = np.zeros(full.size)
    dense[pattern.row_numbers * np.int64(pattern.shape[1]) + pattern.indices] = data
    exact = {} if coloured.method == "acyclic" else {"rtol": 0, "atol": 1e-12}
    np.testing.assert_allclose(data, matrix.data, **exact)
    np.testing.assert_allclose(dense.reshape(full.shape), full, **exact)


@pytest.mark.parametrize("n", [3, 4, 10, 1000])
def test_tridiagonal_has_three_colours(n):
    for method in ("column", "row", "bidirectional", "auto"):
        coloured = colour(tridiagonal(n), method)
        assert coloured.forward_count + coloured.reverse_count == 3
    assert colour_symmetric(tridiagonal(n)).forward_count == (2 if n == 3 else 3)
    assert colour_symmetric(tridiagonal(n), "acyclic").forward_count == 2


@pytest.mark.parametrize("shape", [(8, 8), (7, 9), (10, 10), (5, 100), (31, 17)])
def test_five_point_stencil_has_five_colours(shape):
    for method in ("column", "bidirectional", "auto"):
        coloured = colour(grid(*shape), method)
        assert coloured.forward_count + coloured.reverse_count == 5
    assert colour_symmetric(grid(*shape)).forward_count <= 5
    assert colour_symmetric(grid(*shape), "acyclic").forward_count <= 5


def test_larger_stencils():
    assert colour_columns(grid(9, 10, 11)).count == 7
    assert colour_columns(box(12, 15)).count == 9


@pytest.mark.parametrize(("n", "width"), [(20, 3), (100, 7), (1001, 25)])
def test_rings(n, width):
    offsets = np.arange(width)
    columns = (np.arange(n)[:, None] + offsets) % n
    rows = np.repeat(np.arange(n), width)
    pattern = pattern_of(sp.coo_array((np.ones(n * width), (rows, columns.reshape(-1)))))
    assert colour_columns(pattern).count <= width + 1


def test_fields_of_several_components():
    # Three values at each point of a grid, coupled there, each with its own neighbours.
    points = grid(12, 14).toarray()
    found = np.kron(points, np.eye(3)) + np.kron(np.eye(len(points)), np.ones((3, 3)))
    pattern = pattern_of(found)
    assert int(np.diff(pattern.indptr).max()) == 7
    assert colour_columns(pattern).count <= 9


def torus(side, fields):
    """Each field with its neighbours on a grid that closes to a ring both ways, coupled there."""
    number = np.arange(side * side).reshape(side, side)
    around = np.eye(side * side)
    for shift, axis in ((1, 0), (-1, 0), (1, 1), (-1, 1)):
        around[number.reshape(-1), np.roll(number, shift, axis).reshape(-1)] = 1
    return np.kron(np.eye(fields), around) + np.kron(np.ones((fields, fields)), np.eye(side * side))


@pytest.mark.parametrize(("side", "most"), [(32, 8), (30, 6), (33, 10)])
def test_two_fields_on_a_torus(side, most):
    # The Brusselator. A greedy pass takes 10 to 12, and six entries of a row are the least.
    pattern = pattern_of(torus(side, 2))
    colours = colour_columns(pattern)
    assert 6 <= colours.count <= most
    assert keeps_apart(pattern, colours.of, colours.count)


def test_interior_of_a_grid():
    # Rows for inner points only: rows and columns are numbered differently.
    number = np.arange(10 * 12).reshape(10, 12)
    centre = number[1:-1, 1:-1]
    around = [centre, number[:-2, 1:-1], number[2:, 1:-1], number[1:-1, :-2], number[1:-1, 2:]]
    columns = np.stack(around, axis=-1).reshape(-1)
    rows = np.repeat(np.arange(centre.size), 5)
    shape = (centre.size, number.size)
    pattern = pattern_of(sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=shape))
    assert colour_columns(pattern).count == 5


@pytest.mark.parametrize("n", [4, 10, 300])
def test_arrow(n):
    coloured = colour(arrow(n), "bidirectional")
    assert coloured.forward_count + coloured.reverse_count == 3
    assert colour(arrow(n), "column").forward_count == n
    assert colour(arrow(n), "row").reverse_count == n
    assert colour(arrow(n)).method == "bidirectional"
    assert colour_symmetric(arrow(n)).forward_count == 2
    assert colour_symmetric(arrow(n), "acyclic").forward_count == 2


def test_reversed_arrow():
    backwards = pattern_of(arrow(50).toarray()[::-1, ::-1])
    assert colour_symmetric(backwards).forward_count == 2
    coloured = colour(backwards, "bidirectional")
    assert coloured.forward_count + coloured.reverse_count == 3


def test_rows_here_and_columns_there():
    # Neither direction alone takes fewer than fifty products.
    wide = np.kron(np.eye(20), np.ones((1, 50)))
    pattern = pattern_of(sp.block_array([[sp.csr_array(wide), None], [None, sp.csr_array(wide.T)]]))
    assert colour(pattern, "column").forward_count == 50
    assert colour(pattern, "row").reverse_count == 50
    coloured = colour(pattern, "bidirectional")
    assert (coloured.forward_count, coloured.reverse_count) == (1, 1)
    recovered(coloured, np.random.default_rng(0))


def test_bordered_blocks():
    blocks = np.kron(np.eye(30), np.ones((5, 5)))
    border = np.ones((150, 3))
    pattern = pattern_of(np.block([[blocks, border], [border.T, np.ones((3, 3))]]))
    coloured = colour(pattern, "bidirectional", reverse_cost=1.0)
    # Five for the blocks, three for each border.
    assert coloured.forward_count + coloured.reverse_count == 11


def test_dense_needs_all():
    full = pattern_of(np.ones((4, 6)))
    assert colour(full, "column").forward_count == 6
    assert colour(full, "row").reverse_count == 4
    assert colour(full, reverse_cost=1.0).method == "row"
    assert colour(full, reverse_cost=2.0).method == "column"
    assert colour_symmetric(pattern_of(np.ones((5, 5)))).forward_count == 5


def test_unlisted_dense_pattern():
    large = Pattern((10**6, 10**5), None, dense=True)
    assert colour(large).forward_count == 10**5
    assert colour(large.transposed).reverse_count == 10**5


def test_diagonal_and_empty():
    assert colour(pattern_of(np.eye(6))).forward_count == 1
    assert colour_symmetric(pattern_of(np.eye(6))).forward_count == 1
    nothing = colour(pattern_of(np.zeros((3, 4))))
    assert nothing.forward_count + nothing.reverse_count == 0
    assert nothing.decompress(np.zeros((0, 3)), np.zeros((0, 4))).shape == (0,)
    for shape in [(0, 3), (3, 0), (0, 0)]:
        assert colour(pattern_of(np.zeros(shape))).forward_count == 0


def test_empty_columns_have_no_colour():
    found = colour_columns(pattern_of(np.array([[1, 0, 1], [0, 0, 1]])))
    assert found.of.tolist() == [0, -1, 1]


def test_costs_choose_the_direction():
    tall = pattern_of(np.kron(np.eye(3), np.ones((5, 1))))
    assert colour(tall).method == "column"
    wide = tall.transposed
    assert colour(wide).method == "row"
    assert colour(wide, reverse_cost=10.0).method == "column"


def test_symmetric_methods_need_symmetry():
    with pytest.raises(ShapeError, match="not square"):
        colour_vertices(pattern_of(np.ones((2, 3))), False)
    with pytest.raises(SparsityError, match="not symmetric"):
        colour_vertices(pattern_of(np.triu(np.ones((3, 3)))), True)


def test_wrong_colours_are_refused():
    pattern = tridiagonal(6)
    with pytest.raises(SparsityError, match="no star colouring"):
        star_positions(pattern, Colours(np.arange(6) % 2, 2))
    ring = pattern_of(path(6).toarray() + np.eye(6) + np.eye(6, k=5) + np.eye(6, k=-5))
    with pytest.raises(SparsityError, match="no acyclic colouring"):
        substitution(ring, Colours(np.arange(6) % 2, 2))


def test_unknown_words():
    with pytest.raises(ValueError, match="method 'both' is unknown"):
        colour(arrow(3), "both")
    with pytest.raises(ValueError, match="method 'both' is unknown"):
        colour_symmetric(arrow(3), "both")
    for ask in (
        lambda: order_columns(arrow(3), "any"),
        lambda: colour(arrow(3), order="any"),
        lambda: colour_symmetric(arrow(3), order="any"),
    ):
        with pytest.raises(ValueError, match="order 'any' is unknown"):
            ask()


def test_full_rows_do_not_spoil_the_pass():
    # One row of half the columns beside a band: as many colours as it has entries.
    found = tridiagonal(200).toarray()
    found[7, ::2] = True
    assert colour_columns(pattern_of(found)).count == int(found.sum(axis=1).max())


def test_hubs_get_colours_of_their_own(monkeypatch):
    monkeypatch.setattr(colouring, "LARGEST_STAR_COLOURING", 3000.0)
    found = tridiagonal(60).toarray()
    found[30] = found[:, 30] = True
    pattern = pattern_of(found)
    for method in SYMMETRIC_METHODS:
        coloured = colour_symmetric(pattern, method)
        assert coloured.forward_count <= 4
        recovered(coloured, np.random.default_rng(0))
    monkeypatch.setattr(colouring, "LARGEST_STAR_COLOURING", 1.0)
    assert colour_symmetric(pattern).forward_count == 60


def test_too_much_work_gives_each_column_its_colour(monkeypatch):
    monkeypatch.setattr(colouring, "LARGEST_COLOURING", 1.0)
    rng = np.random.default_rng(0)
    pattern = pattern_of(rng.random((30, 30)) < 0.2)
    coloured = colour(pattern, "column")
    assert coloured.forward_count == len(np.unique(pattern.indices))
    recovered(coloured, rng)


def test_lattice_refuses_what_is_no_grid():
    rng = np.random.default_rng(0)
    pattern = pattern_of(rng.random((200, 200)) < 0.03)
    lowest = int(np.diff(pattern.indptr).max())
    assert lattice_colours(pattern, lowest) is None


@st.composite
def patterns(draw, square=False):
    rows = draw(st.integers(0, 12))
    columns = rows if square else draw(st.integers(0, 12))
    density = draw(st.sampled_from([0.05, 0.2, 0.5, 0.9]))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    found = rng.random((rows, columns)) < density
    if draw(st.booleans()) and rows and columns:
        found[rng.integers(rows)] = True
    if draw(st.booleans()) and rows and columns:
        found[:, rng.integers(columns)] = True
    return found


@settings(max_examples=150, deadline=None)
@given(patterns(), st.sampled_from([*METHODS, "auto"]), st.sampled_from([0.3, 1.0, 3.0]))
def test_jacobians_are_recovered(found, method, reverse_cost):
    coloured = colour(pattern_of(found), method, reverse_cost=reverse_cost)
    recovered(coloured, np.random.default_rng(0))


@settings(max_examples=150, deadline=None)
@given(patterns(), st.sampled_from([0.3, 1.0, 3.0]), st.sampled_from(ORDERS), st.booleans())
def test_splits_are_recovered(found, reverse_cost, order, compiled):
    pattern = pattern_of(found)
    with pytest.MonkeyPatch.context() as patch:
        if compiled:
            patch.setattr(loop_runner, "WORTH_COMPILING_LOOP", 0)
            patch.setattr(loop_runner, "WORTH_CALLING_LOOP", 0)
        split = colour_split(pattern, 1.0, reverse_cost, (order,))
    coloured = Coloured(pattern, "bidirectional", split.columns, split.rows, split)
    recovered(coloured, np.random.default_rng(0))


@settings(max_examples=150, deadline=None)
@given(patterns(square=True), st.sampled_from(SYMMETRIC_METHODS))
def test_hessians_are_recovered(found, method):
    coloured = colour_symmetric(pattern_of(found | found.T), method)
    recovered(coloured, np.random.default_rng(0))


@settings(max_examples=100, deadline=None)
@given(patterns(), st.sampled_from(ORDERS))
def test_every_order_is_valid(found, order):
    pattern = pattern_of(found)
    assert sorted(order_columns(pattern, order)) == list(range(found.shape[1]))
    colours = colour_columns(pattern, (order,))
    used = colours.of[pattern.indices]
    assert (used >= 0).all()
    assert keeps_apart(pattern, colours.of, max(colours.count, 1))
    assert colours.count >= int(found.sum(axis=1).max(initial=0))
    assert set(colours.of[colours.of >= 0]) == set(range(colours.count))


@settings(max_examples=60, deadline=None)
@given(patterns(square=True), st.sampled_from(ORDERS))
def test_every_symmetric_order_is_valid(found, order):
    pattern = pattern_of(found | found.T)
    star_positions(pattern, colour_vertices(pattern, False, (order,)))
    trees = colour_vertices(pattern, True, (order,))
    substitution(pattern, trees)


@settings(max_examples=60, deadline=None)
@given(patterns())
def test_both_directions_are_no_worse_than_one(found):
    pattern = pattern_of(found)
    forward, reverse, both = (colour(pattern, method, reverse_cost=1.0) for method in METHODS)
    least = min(forward.forward_count, reverse.reverse_count)
    assert both.cost(1.0, 1.0) <= least
    assert colour(pattern, reverse_cost=1.0).cost(1.0, 1.0) <= least
