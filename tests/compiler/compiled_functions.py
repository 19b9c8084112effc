"""Functions of ops compiled alone, and called on arrays: for tests of their accuracy."""

import ctypes

import numpy as np

from gradtape.compiler.emit.builder import Builder
from gradtape.compiler.emit.math import vectormath
from gradtape.compiler.emit.math.vectors import convention
from gradtape.compiler.objects import llvm
from gradtape.ir.op import REGISTRY
from gradtape.ops.families.vector_code import Vector

DTYPES = {"float": np.float32, "double": np.float64}
COMPLEX = {"float": np.complex64, "double": np.complex128}
# Names of functions that are an op of a certain order.
OF_ORDER = {"sinc": ("sinc", 0), "i0": ("bessel_i", 0), "i1": ("bessel_i", 1)}


def op_of(name):
    """The op that computes a function in kernels, and its params."""
    op, *order = OF_ORDER.get(name, (name,))
    return REGISTRY[op], {"order": order[0]} if order else {}


def arity(name):
    return len(op_of(name)[0].samples()[0].inputs)


def written(name, dtype, lanes):
    """A builder with the instructions of an op, its operands' names and its results' names."""
    builder, parts = Builder(lanes), 2 if dtype.kind == "c" else 1
    names = [[f"%x{parts * k + part}" for part in range(parts)] for k in range(arity(name))]
    op, params = op_of(name)
    result = op.llvm(builder, *(Vector(own[0], dtype, *own[1:]) for own in names), **params)
    return builder, [part for own in names for part in own], result.parts


def called(name, dtype, lanes):
    """The same for a call of an op's function by its most accurate implementation."""
    builder, op = Builder(lanes), op_of(name)[0]
    ty = "float" if dtype == np.float32 else "double"
    symbol, needed = vectormath.accurate_function(op.function, ty, lanes)
    builder.r.definitions.update(dict.fromkeys(needed))
    kind = builder.vector_type(dtype)
    text = f"call {convention(symbol)}{kind} @{symbol}({kind} %x0)"
    return builder, ["%x0"], [builder.r.let(text, kind)]


def kernel_text(label, builder, ty, operands, results):
    """A loop over whole vectors that computes an op and stores what it gives."""
    kind = ty if builder.lanes == 1 else f"<{builder.lanes} x {ty}>"
    pointers = [f"ptr %o{k}" for k in range(len(results))]
    pointers += [f"ptr %a{k}" for k in range(len(operands))]
    lines = [f"define void @{label}({', '.join(pointers)}, i64 %n) {{", "entry:", *builder.r.entry,
             "  br label %loop", "loop:", "  %i = phi i64 [0, %entry], [%j, %loop]"]  # fmt: skip
    for k, name in enumerate(operands):
        lines += [f"  %p{k} = getelementptr {ty}, ptr %a{k}, i64 %i",
                  f"  {name} = load {kind}, ptr %p{k}, align 4"]  # fmt: skip
    lines += builder.r.lines
    for k, name in enumerate(results):
        lines += [f"  %q{k} = getelementptr {ty}, ptr %o{k}, i64 %i",
                  f"  store {kind} {name}, ptr %q{k}, align 4"]  # fmt: skip
    lines += [f"  %j = add i64 %i, {builder.lanes}", "  %c = icmp slt i64 %j, %n",
              "  br i1 %c, label %loop, label %done", "done:", "  ret void", "}"]  # fmt: skip
    return "\n".join(lines)


class Module:
    """Many functions compiled together, each called on arrays."""

    def __init__(self, names, ty, lanes, complex_numbers=False, write=written):
        self.dtype, self.lanes, self.counts = DTYPES[ty], lanes, {}
        dtype = np.dtype(COMPLEX[ty] if complex_numbers else self.dtype)
        snippets, kernels = {}, []
        for name in names:
            builder, operands, results = write(name, dtype, lanes)
            snippets.update(builder.r.definitions)
            self.counts[name] = len(operands), len(results)
            kernels.append(kernel_text(f"test_{name}", builder, ty, operands, results))
        self.compiled = llvm.compile_ir("\n".join([*snippets, *kernels]))

    def __call__(self, name, *arrays):
        operands, results = self.counts[name]
        pointers = [ctypes.c_void_p] * (operands + results)
        call = llvm.callable_at(self.compiled.address(f"test_{name}"), *pointers, ctypes.c_int64)
        size = arrays[0].size
        padding = np.ones(-size % self.lanes, self.dtype)
        inputs = [np.concatenate([np.asarray(a, self.dtype), padding]) for a in arrays]
        outputs = [np.empty_like(inputs[0]) for _ in range(results)]
        call(*(a.ctypes.data for a in outputs + inputs), inputs[0].size)
        found = tuple(output[:size] for output in outputs)
        return found[0] if results == 1 else found
