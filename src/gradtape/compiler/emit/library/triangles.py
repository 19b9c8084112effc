"""Systems with triangular matrices from the right, by blocks: mostly products.

OpenBLAS computes `trsm` of order 500 at 25 Gflop/s and `gemm` at 50 to 60 on a processor with AVX2.
"""

from __future__ import annotations

from gradtape.compiler.emit.library.lapack_routine import LapackRoutine
from gradtape.compiler.emit.writer import Word
from gradtape.config import TRIANGLE_BLOCK


class RightDivision:
    """Multiplies column-major matrices from the right by inverses of triangles.

    It is made before any loop of the routine, because it has places on the stack.
    """

    def __init__(self, w: LapackRoutine) -> None:
        self._w = w
        self._block_at, self._rest_at = w.stored(0), w.stored(0)

    def write(
        self,
        uplo: str,
        turned: str,
        unit: str,
        order: Word,
        matrix: str,
        lead_at: str,
        x: str,
        rows_at: str,
        step: Word,
        step_at: str,
    ) -> None:
        """Divide x by a triangle of a matrix, or ("T") by its transpose.

        The matrix has `order` rows, and its columns have the distance at `lead_at`; x has as many
        columns as the matrix has rows, with the distance `step`, and the number of its rows is at
        `rows_at`.
        """
        w, r = self._w, self._w.r
        lead = r.word(lead_at)
        forward = (uplo == "L") == (turned == "T")
        blocks = r.blocks(order, TRIANGLE_BLOCK)
        with r.loop(blocks) as index:
            number = index if forward else r.subtract(r.subtract(blocks, 1), index)
            first = r.multiply(number, TRIANGLE_BLOCK)
            left = r.subtract(order, first)
            count = r.least(left, TRIANGLE_BLOCK)
            r.put(self._block_at, 0, count)
            corner = w.element(matrix, r.multiply(first, r.add(lead, 1)))
            columns = w.element(x, r.multiply(first, step))
            square = (rows_at, self._block_at, w.one(), corner, lead_at, columns, step_at)
            w.blas("trsm", "R", uplo, turned, unit, *square)
            # The columns left to divide: after the block, or before it.
            start: Word = r.add(first, count) if forward else 0
            rest = r.subtract(left, count) if forward else first
            r.put(self._rest_at, 0, rest)
            with r.when(r.compare("sgt", rest, 0)):
                row, column = (start, first) if turned == "T" else (first, start)
                factor = w.element(matrix, r.add(r.multiply(column, lead), row))
                others = w.element(x, r.multiply(start, step))
                sizes = (rows_at, self._rest_at, self._block_at)
                product = (columns, step_at, factor, lead_at, w.one(), others, step_at)
                w.blas("gemm", "N", turned, *sizes, w.one("-1.0"), *product)
