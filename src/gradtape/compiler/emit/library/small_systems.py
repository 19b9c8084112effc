"""Products and solutions of small real matrices as functions of a module, without loops."""

from __future__ import annotations

from gradtape.compiler.emit.library.butterflies import Vectors
from gradtape.compiler.emit.library.stack_routine import StackRoutine
from gradtape.compiler.emit.writer import Routine


def write_product(real: str, n: int) -> str:
    """The function `product`: the product of two matrices of order n."""
    r = Routine("internal void @product(ptr %a, ptr %b, ptr %to) nounwind")
    by = Vectors(r, real, n)
    rows = [by.load(r.at("%b", k * by.nbytes)) for k in range(n)]
    for i in range(n):
        total = by.constant(0.0)
        for k, row in enumerate(rows):
            factor = by.load_spread(r.at("%a", (i * n + k) * by.size))
            total = by.add(total, by.multiply(factor, row))
        by.store(r.at("%to", i * by.nbytes), total)
    r.end("ret void")
    return r.text()


def write_solution(w: StackRoutine, real: str, n: int) -> str:
    """The function `quotient`: b becomes the solution of a x = b, by elimination with pivots."""
    r = Routine("internal void @quotient(ptr %a, ptr %b) nounwind")
    by = Vectors(r, real, n)
    name = f"llvm.fabs.f{8 * by.size}"
    absolute = w.function(name, f"{real} @{name}({real})")
    a, b = ([by.load(r.at(base, i * by.nbytes)) for i in range(n)] for base in ("%a", "%b"))

    def lane(row: str, k: int) -> str:
        return row if n == 1 else r.let(f"extractelement {by.kind} {row}, i32 {k}")

    def less(row: str, factor: str, other: str) -> str:
        return by.subtract(row, by.multiply(by.spread(factor), other))

    for k in range(n):
        best, at = r.call(real, absolute, f"{real} {lane(a[k], k)}"), str(k)
        for i in range(k + 1, n):
            size = r.call(real, absolute, f"{real} {lane(a[i], k)}")
            larger = r.let(f"fcmp ogt {real} {size}, {best}")
            best, at = r.select(larger, size, best, real), r.select(larger, i, at)
        for rows in (a, b):
            old = new = rows[k]
            for i in range(k + 1, n):
                same = r.equal(at, i)
                new = r.select(same, rows[i], new, by.kind)
                rows[i] = r.select(same, old, rows[i], by.kind)
            rows[k] = new
        for i in range(k + 1, n):
            factor = r.let(f"fdiv {real} {lane(a[i], k)}, {lane(a[k], k)}")
            a[i], b[i] = less(a[i], factor, a[k]), less(b[i], factor, b[k])
    for i in range(n)[::-1]:
        for k in range(i + 1, n):
            b[i] = less(b[i], lane(a[i], k), b[k])
        pivot = by.spread(lane(a[i], i))
        b[i] = r.let(f"fdiv {by.kind} {b[i]}, {pivot}")
        by.store(r.at("%b", i * by.nbytes), b[i])
    r.end("ret void")
    return r.text()
