"""Panels: matrix products of little depth as a kernel, without BLAS.

A BLAS blocks a product for depths of hundreds, and packs both operands. With a depth of up to
`DEPTH`, a panel of some columns of the right operand fits the innermost cache whole: it is packed
there, and tiles of a few rows of the left operand pass over it, with all sums in registers.

The range of the kernel counts panels. The left operand may have any strides, for each of its
elements is loaded by itself and spread over a vector.
"""

from __future__ import annotations

from typing import NamedTuple

from gradtape.codegen.plans.instructions import kernel_routine
from gradtape.codegen.routine import Routine

DEPTH = 256


class PanelArguments(NamedTuple):
    """The words of the kernel: offsets and steps are bytes."""

    slot_a: int
    offset_a: int
    slot_b: int
    offset_b: int
    slot_c: int
    offset_c: int
    m: int
    n: int
    k: int
    a_down: int
    a_across: int
    b_down: int
    b_across: int
    c_down: int


class Shape(NamedTuple):
    """How a product is cut: lanes of a vector, vectors of a panel's width, rows of a tile."""

    kind: str
    size: int
    lanes: int
    vectors: int
    rows: int

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.lanes * self.vectors

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x {self.kind}>"


def shape_for(size: int, bits: int) -> Shape:
    """Sums of a tile take three quarters of the registers: 32 of 512 bits, or 16 of less."""
    kind, lanes = {4: "float", 8: "double"}[size], bits // (8 * size)
    return Shape(kind, size, lanes, 3, 8 if bits == 512 else 4)


def panels_ir(shape: Shape) -> str:
    """The module with `panels`."""
    tiles = "".join(_tile(shape, rows) for rows in dict.fromkeys((shape.rows, 2, 1)))
    name = f"v{shape.lanes}f{8 * shape.size}"
    mask = f"<{shape.lanes} x i1>"
    declarations = f"""
declare {shape.vector} @llvm.fma.{name}({shape.vector}, {shape.vector}, {shape.vector})
declare void @llvm.masked.store.{name}.p0({shape.vector}, ptr, i32, {mask})
"""
    return declarations + tiles + _pack(shape) + _panels(shape)


def _splat(r: Routine, shape: Shape, scalar: str) -> str:
    one = r.let(f"insertelement {shape.vector} poison, {shape.kind} {scalar}, i32 0")
    zeros = f"<{shape.lanes} x i32> zeroinitializer"
    return r.let(f"shufflevector {shape.vector} {one}, {shape.vector} poison, {zeros}")


def _tile(shape: Shape, rows: int) -> str:
    """Some rows times a panel; of the last panel only so many columns are written."""
    vector, size = shape.vector, shape.size
    r = Routine(
        f"internal void @tile{rows}(ptr noalias %a, i64 %down, i64 %across, ptr noalias %b, "
        "ptr noalias %c, i64 %step, i64 %k, i64 %width)"
    )
    starts = [r.at("%a", r.multiply("%down", row)) for row in range(rows)]
    sums = [(row, column) for row in range(rows) for column in range(shape.vectors)]
    r.block("loop")
    r.line("%i = phi i64 [ 0, %entry ], [ %next, %loop ]")
    for row, column in sums:
        r.line(f"%sum{row}.{column} = phi {vector} [ zeroinitializer, %entry ], "
               f"[ %more{row}.{column}, %loop ]")  # fmt: skip
    place = r.at("%b", r.multiply("%i", size * shape.width))
    loaded = [
        r.let(f"load {vector}, ptr {r.at(place, column * shape.lanes * size)}, align {size}")
        for column in range(shape.vectors)
    ]
    along = r.multiply("%i", "%across")
    for row in range(rows):
        element = r.let(f"load {shape.kind}, ptr {r.at(starts[row], along)}, align {size}")
        spread = _splat(r, shape, element)
        for column, factor in enumerate(loaded):
            operands = f"{vector} {spread}, {vector} {factor}, {vector} %sum{row}.{column}"
            name = f"@llvm.fma.v{shape.lanes}f{8 * size}"
            r.line(f"%more{row}.{column} = call {vector} {name}({operands})")
    r.line("%next = add i64 %i, 1")
    again = r.compare("slt", "%next", "%k")
    r.end(f"br i1 {again}, label %loop, label %write")
    r.block("write")
    whole = r.equal("%width", shape.width)
    places = {row: r.at("%c", r.multiply("%step", row)) for row in range(rows)}
    r.end(f"br i1 {whole}, label %all, label %some")
    r.block("all")
    for row, column in sums:
        place = r.at(places[row], column * shape.lanes * size)
        r.line(f"store {vector} %more{row}.{column}, ptr {place}, align {size}")
    r.end("ret void")
    r.block("some")
    integers = f"<{shape.lanes} x i64>"
    numbers = ", ".join(f"i64 {lane}" for lane in range(shape.lanes))
    wide = Shape("i64", 8, shape.lanes, 0, 0)
    limit = _splat(r, wide, "%width")
    masks = []
    for column in range(shape.vectors):
        first = ", ".join([f"i64 {column * shape.lanes}"] * shape.lanes)
        lanes = r.let(f"add {integers} <{numbers}>, <{first}>")
        masks.append(r.let(f"icmp slt {integers} {lanes}, {limit}"))
    for row, column in sums:
        place = r.at(places[row], column * shape.lanes * size)
        r.line(
            f"call void @llvm.masked.store.v{shape.lanes}f{8 * size}.p0({vector} "
            f"%more{row}.{column}, ptr {place}, i32 {size}, <{shape.lanes} x i1> {masks[column]})"
        )
    r.end("ret void")
    return r.text()


def _pack(shape: Shape) -> str:
    """Some columns of the right operand, row after row, with zeros where there are fewer."""
    size, kind = shape.size, shape.kind
    r = Routine(
        "internal void @pack(ptr noalias %to, ptr noalias %b, i64 %down, i64 %across, i64 %k, "
        "i64 %width)"
    )
    whole = r.equal("%width", shape.width)
    dense = r.equal("%across", size)
    r.go_if(r.both(whole, dense), "vectors")
    with r.loop("%k") as row:
        source = r.at("%b", r.multiply(row, "%down"))
        target = r.at("%to", r.multiply(row, size * shape.width))
        for column in range(shape.vectors):
            place = r.at(target, column * shape.lanes * size)
            r.line(f"store {shape.vector} zeroinitializer, ptr {place}, align {size}")
        with r.loop("%width") as index:
            at = r.at(source, r.multiply(index, "%across"))
            element = r.let(f"load {kind}, ptr {at}, align {size}")
            place = r.at(target, r.multiply(index, size))
            r.line(f"store {kind} {element}, ptr {place}, align {size}")
    r.end("ret void")
    r.block("vectors")
    with r.loop("%k") as row:
        source = r.at("%b", r.multiply(row, "%down"))
        target = r.at("%to", r.multiply(row, size * shape.width))
        for column in range(shape.vectors):
            offset = column * shape.lanes * size
            found = r.let(f"load {shape.vector}, ptr {r.at(source, offset)}, align {size}")
            r.line(f"store {shape.vector} {found}, ptr {r.at(target, offset)}, align {size}")
    r.end("ret void")
    return r.text()


def _panels(shape: Shape) -> str:
    size, width = shape.size, shape.width
    r = kernel_routine("panels")
    r.line(f"%panel = alloca [{DEPTH * width} x {shape.kind}], align 64")
    words = r.words("%args", PanelArguments._fields)
    bases = {
        name: r.at(r.pointer("%slots", r.scaled(words[f"slot_{name}"])), words[f"offset_{name}"])
        for name in "abc"
    }
    m, n, k = words["m"], words["n"], words["k"]
    a_down, c_down = words["a_down"], words["c_down"]
    with r.loop(r.subtract("%hi", "%lo")) as number:
        first = r.multiply(r.add("%lo", number), width)
        left = r.subtract(n, first)
        columns = r.select(r.compare("slt", left, width), left, width)
        b = r.at(bases["b"], r.let(f"mul i64 {first}, {words['b_across']}"))
        c = r.at(bases["c"], r.multiply(first, size))
        steps = (f"i64 {words['b_down']}", f"i64 {words['b_across']}")
        r.do("@pack", "ptr %panel", f"ptr {b}", *steps, f"i64 {k}", f"i64 {columns}")
        done: str = "0"
        for rows in dict.fromkeys((shape.rows, 2, 1)):
            rest = r.subtract(m, done)
            count = r.let(f"sdiv i64 {rest}, {rows}")
            with r.loop(count) as tile:
                row = r.add(done, r.multiply(tile, rows))
                a_at = r.at(bases["a"], r.let(f"mul i64 {row}, {words['a_down']}"))
                c_at = r.at(c, r.let(f"mul i64 {row}, {words['c_down']}"))
                left_operand = (f"ptr {a_at}", f"i64 {a_down}", f"i64 {words['a_across']}")
                result = (f"ptr {c_at}", f"i64 {c_down}")
                sizes = (f"i64 {k}", f"i64 {columns}")
                r.do(f"@tile{rows}", *left_operand, "ptr %panel", *result, *sizes)
            done = r.add(done, r.multiply(count, rows))
    r.end("ret void")
    return r.text()
