"""Recorder: the path of known structure through an element-wise op, as IR against CPython's C API.

It does what the closures of `ops.families` do when every operand is known to the recording and
the application was made in an earlier run: find the node, stamp it, list it, make the handle. In
all other cases it calls the closure with the same operands, so it decides nothing of its own.

Nothing that can run Python code happens between reading the state and having written it: the
result is allocated first, and whatever allocates tuples starts over. That is what makes borrowed
references safe here.

A context is a tuple `(op, closure, reflected closure, params or None)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

from gradtape.codegen.cpython import observe
from gradtape.codegen.cpython.lookup import CURRENT, FUNCTIONS, LOOKUP, with_loads
from gradtape.codegen.cpython.python_api import declarations

# Operators with a slot of their own, and whether operands are exchanged to record `1.0 + x`.
BINARY_SLOTS = {"add": True, "subtract": False, "multiply": True, "divide": False, "matmul": False}
# Integer exponents that are part of the program, not leaves.
EXPONENTS = range(-8, 9)


def recorder_ir(facts: Mapping[str, int], contexts: Mapping[str, int]) -> str:
    """The module. `facts` are offsets and addresses, `contexts` the addresses of the tuples."""
    names = {name: str(number) for name, number in facts.items()}
    parts = [
        declarations({*FUNCTIONS, *observe.FUNCTIONS}),
        observe.observe_ir(facts),
        LOOKUP,
        CURRENT,
        _unary(),
        _binary(reflected=False),
        _binary(reflected=True),
        _CALLS,
    ]
    for name, commutes in BINARY_SLOTS.items():
        exchanged = "binary" if commutes else "reflected"
        parts.append(Template(_SLOT).safe_substitute(name=name, exchanged=exchanged))
    parts.append(_POWER)
    text = with_loads(Template("\n".join(parts)).substitute(names))
    lines = [f"@context.{name} = internal constant i64 {at}" for name, at in contexts.items()]
    return "\n".join([*lines, text])


def _begin(name: str, arguments: str) -> str:
    """The head of a path: the handle, the recording, and the node `%a` of operand `%x`."""
    return f"""
define internal ptr @{name}({arguments}) {{
entry:
  %x.kind = at(ptr %x, i64 8)
  %kind = call ptr @result_kind(ptr %x.kind)
  %unsupported = icmp eq ptr %kind, null
  br i1 %unsupported, label %unknown, label %make
make:
  %handle = call ptr @PyType_GenericAlloc(ptr %kind, i64 0)
  %failed = icmp eq ptr %handle, null
  br i1 %failed, label %fail, label %start
fail:
  ret ptr null
start:
  %again = phi i1 [ false, %make ], [ true, %learned ]
  %recording = call ptr @current()
  %nowhere = icmp eq ptr %recording, null
  br i1 %nowhere, label %drop, label %enter
enter:
  %stamp = at(ptr %recording, i64 $Recording_stamp)
  %table = at(ptr %recording, i64 $Recording_table)
  %a = call ptr @node_of(ptr %x, ptr %recording, ptr %stamp)
  %unentered = icmp eq ptr %a, null
  br i1 %unentered, label %drop, label %entered
"""


# From `%third` on: look the node up, enter the application; or ask the dictionary, once. `%hold` is
# the other node of the key, which must live while tuples are made.
_END = """
look:
  %op = at(ptr %context, i64 $tuple_items)
  %cache = call ptr @cache_of(ptr %table)
  %uncached = icmp eq ptr %cache, null
  br i1 %uncached, label %drop, label %find
find:
  %node = call ptr @known(ptr %cache, ptr %op, ptr %a, i64 %third)
  %miss = icmp eq ptr %node, null
  br i1 %miss, label %ask, label %hit
hit:
  %result = call ptr @commit(ptr %recording, ptr %stamp, ptr %node, ptr %handle, ptr %scalar)
  %refused = icmp eq ptr %result, null
  br i1 %refused, label %closure, label %done
done:
  ret ptr %result
learned:
  call void @Py_DecRef(ptr %a)
  call void @Py_DecRef(ptr %table)
  br i1 %answered, label %start, label %drop
unknown:
  call void @meet(ptr %x)
  br label %closure
drop:
  call void @Py_DecRef(ptr %handle)
  br label %closure
closure:
  ; The look-up may have met an interrupt, or have found no memory.
  %error = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %python, label %fail
"""


def _unary() -> str:
    return (
        _begin("unary", "ptr %context, ptr %x")
        + """
entered:
  %params.offset = add i64 $tuple_items, 24
  %params = at(ptr %context, i64 %params.offset)
  %third = ptrtoint ptr %params to i64
  %scalar = inttoptr i64 0 to ptr
  br label %look
ask:
  br i1 %again, label %drop, label %learn.it
learn.it:
  call void @Py_IncRef(ptr %table)
  call void @Py_IncRef(ptr %a)
  %plain = icmp eq ptr %params, inttoptr (i64 $None to ptr)
  %one = select i1 %plain, ptr %a, ptr %params
  %two = select i1 %plain, ptr null, ptr %a
  %answered = call i1 @learn(ptr %table, ptr %op, ptr %a, i64 %third, ptr %one, ptr %two)
  br label %learned
"""
        + _END
        + """
python:
  %closure.offset = add i64 $tuple_items, 8
  %function = at(ptr %context, i64 %closure.offset)
  %answer = call ptr @ask(ptr %function, ptr %x, ptr null)
  ret ptr %answer
}
"""
    )


def _binary(reflected: bool) -> str:
    """Operand `%x` is a handle: the left one or, reflected, the right one beside a scalar."""
    name, item, tag = ("reflected", 16, 4) if reflected else ("binary", 8, 0)
    order = "ptr %b, ptr %a" if reflected else "ptr %a, ptr %b"
    other = (
        ""
        if reflected
        else """
other:
  %y.result = call ptr @result_kind(ptr %y.kind)
  %y.unsupported = icmp eq ptr %y.result, null
  br i1 %y.unsupported, label %drop, label %y.handle
y.handle:
  %y.node = call ptr @node_of(ptr %y, ptr %recording, ptr %stamp)
  %y.unentered = icmp eq ptr %y.node, null
  %y.third = ptrtoint ptr %y.node to i64
  br i1 %y.unentered, label %drop, label %look.either
"""
    )
    third_node = "" if reflected else ", [ %y.third, %y.handle ]"
    scalar_node = "" if reflected else ", [ null, %y.handle ]"
    known_node = "" if reflected else ", [ %y.node, %y.handle ]"
    return (
        _begin(name, "ptr %context, ptr %x, ptr %y")
        + f"""
entered:
  %y.kind = at(ptr %y, i64 8)
  %spec = at(ptr %a, i64 $Node_spec)
  %is.float = icmp eq ptr %y.kind, inttoptr (i64 $float to ptr)
  br i1 %is.float, label %number, label %integer
integer:
  %is.int = icmp eq ptr %y.kind, inttoptr (i64 $int to ptr)
  br i1 %is.int, label %adapts, label %{"drop" if reflected else "other"}
adapts:
  %fits = call i1 @inexact(ptr %spec)
  br i1 %fits, label %number, label %drop
number:
  %int.bit = phi i64 [ 0, %entered ], [ 2, %adapts ]
  %leaves = at(ptr %recording, i64 $Recording_leaves)
  %ordinal.word = at(ptr %leaves, i64 $list_size)
  %ordinal = ptrtoint ptr %ordinal.word to i64
  %shifted = shl i64 %ordinal, 3
  %tagged = or i64 %shifted, {tag + 1}
  %number.third = or i64 %tagged, %int.bit
  br label %look.either
{other}
look.either:
  %third = phi i64 [ %number.third, %number ]{third_node}
  %scalar = phi ptr [ %y, %number ]{scalar_node}
  %node.other = phi ptr [ null, %number ]{known_node}
  %place = phi i64 [ %ordinal, %number ]{"" if reflected else ", [ 0, %y.handle ]"}
  br label %look
ask:
  br i1 %again, label %drop, label %learn.it
learn.it:
  call void @Py_IncRef(ptr %table)
  call void @Py_IncRef(ptr %a)
  %is.number = icmp eq ptr %node.other, null
  br i1 %is.number, label %find.leaf, label %find.node
find.leaf:
  %leaf = call ptr @leaf_of(ptr %table, ptr %spec, ptr %y.kind, i64 %place)
  %no.leaf = icmp eq ptr %leaf, null
  br i1 %no.leaf, label %learned, label %find.node
find.node:
  %b = phi ptr [ %node.other, %learn.it ], [ %leaf, %find.leaf ]
  call void @Py_IncRef(ptr %b)
  %told = call i1 @learn(ptr %table, ptr %op, ptr %a, i64 %third, {order})
  call void @Py_DecRef(ptr %b)
  br label %learned
"""
        + _END.replace(
            "learned:\n",
            "learned:\n  %answered = phi i1 [ false, %find.leaf ], [ %told, %find.node ]\n",
        )
        + f"""
python:
  %closure.offset = add i64 $tuple_items, {item}
  %function = at(ptr %context, i64 %closure.offset)
  %answer = call ptr @ask(ptr %function, ptr %x, ptr %y)
  ret ptr %answer
}}
"""
    )


# Bodies of built-in functions, whose self is the context, and of the slots that have no closure.
_CALLS = """
define ptr @unary_function(ptr %context, ptr %x) {
  %answer = tail call ptr @unary(ptr %context, ptr %x)
  ret ptr %answer
}

define ptr @binary_function(ptr %context, ptr %arguments, i64 %count) {
entry:
  %two = icmp eq i64 %count, 2
  br i1 %two, label %fine, label %wrong
fine:
  %x = at(ptr %arguments, i64 0)
  %y = at(ptr %arguments, i64 8)
  %x.kind = at(ptr %x, i64 8)
  %is.float = icmp eq ptr %x.kind, inttoptr (i64 $float to ptr)
  %is.int = icmp eq ptr %x.kind, inttoptr (i64 $int to ptr)
  %is.number = or i1 %is.float, %is.int
  br i1 %is.number, label %exchanged, label %in_order
exchanged:
  %answer.exchanged = tail call ptr @reflected(ptr %context, ptr %y, ptr %x)
  ret ptr %answer.exchanged
in_order:
  %answer = tail call ptr @binary(ptr %context, ptr %x, ptr %y)
  ret ptr %answer
wrong:
  %offset = add i64 $tuple_items, 8
  %function = at(ptr %context, i64 %offset)
  %refusal = call ptr @PyObject_Vectorcall(ptr %function, ptr %arguments, i64 %count, ptr null)
  ret ptr %refusal
}

define ptr @slot_negative(ptr %x) {
  %word = load i64, ptr @context.negative
  %context = inttoptr i64 %word to ptr
  %answer = tail call ptr @unary(ptr %context, ptr %x)
  ret ptr %answer
}

define ptr @slot_compare(ptr %x, ptr %y, i32 %comparison) {
  %word = load i64, ptr @context.compare
  %contexts = inttoptr i64 %word to ptr
  %number = zext i32 %comparison to i64
  %scaled = shl i64 %number, 3
  %offset = add i64 %scaled, $tuple_items
  %context = at(ptr %contexts, i64 %offset)
  %answer = tail call ptr @binary(ptr %context, ptr %x, ptr %y)
  ret ptr %answer
}

; Whether the left operand of an operator is ours; else it was the right one that was asked.
define internal i1 @is_left(ptr %x) {
entry:
  %kind = at(ptr %x, i64 8)
  %is.float = icmp eq ptr %kind, inttoptr (i64 $float to ptr)
  br i1 %is.float, label %no, label %kinds
kinds:
  %result = call ptr @result_kind(ptr %kind)
  %known = icmp ne ptr %result, null
  br i1 %known, label %yes, label %ask
ask:
  %answer = call i32 @PyType_IsSubtype(ptr %kind, ptr inttoptr (i64 $Tensor to ptr))
  %ours = icmp ne i32 %answer, 0
  ret i1 %ours
yes:
  ret i1 true
no:
  ret i1 false
}
"""

_SLOT = """
define ptr @slot_${name}(ptr %left, ptr %right) {
entry:
  %word = load i64, ptr @context.${name}
  %context = inttoptr i64 %word to ptr
  %ours = call i1 @is_left(ptr %left)
  br i1 %ours, label %in_order, label %exchanged
in_order:
  %answer = tail call ptr @binary(ptr %context, ptr %left, ptr %right)
  ret ptr %answer
exchanged:
  %answer.exchanged = tail call ptr @${exchanged}(ptr %context, ptr %right, ptr %left)
  ret ptr %answer.exchanged
}
"""

# The fourth item of this context holds those of the integer exponents that are not leaves.
_POWER = """
define ptr @slot_pow(ptr %left, ptr %right, ptr %modulus) {
entry:
  %overflow = alloca i32
  %word = load i64, ptr @context.pow
  %context = inttoptr i64 %word to ptr
  %two = icmp eq ptr %modulus, inttoptr (i64 $None to ptr)
  br i1 %two, label %which, label %three
three:
  %function.offset = add i64 $tuple_items, 8
  %function = at(ptr %context, i64 %function.offset)
  %refusal = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(
      ptr %function, ptr %left, ptr %right, ptr %modulus, ptr null)
  ret ptr %refusal
which:
  %ours = call i1 @is_left(ptr %left)
  br i1 %ours, label %in_order, label %exchanged
exchanged:
  %answer.exchanged = tail call ptr @reflected(ptr %context, ptr %right, ptr %left)
  ret ptr %answer.exchanged
in_order:
  %right.kind = at(ptr %right, i64 8)
  %is.int = icmp eq ptr %right.kind, inttoptr (i64 $int to ptr)
  br i1 %is.int, label %base, label %leaf
base:
  %left.kind = at(ptr %left, i64 8)
  %known = call ptr @result_kind(ptr %left.kind)
  %unsupported = icmp eq ptr %known, null
  br i1 %unsupported, label %leaf, label %pending
pending:
  %node = at(ptr %left, i64 $Handle_node)
  %node.unset = icmp eq ptr %node, null
  br i1 %node.unset, label %closure, label %node.check
node.check:
  %node.kind = at(ptr %node, i64 8)
  %is.node = icmp eq ptr %node.kind, inttoptr (i64 $Node to ptr)
  br i1 %is.node, label %of.node, label %value
of.node:
  %node.spec = at(ptr %node, i64 $Node_spec)
  br label %spec.known
value:
  %computed = at(ptr %left, i64 $Handle_computed)
  %value.unset = icmp eq ptr %computed, null
  br i1 %value.unset, label %closure, label %value.check
value.check:
  %value.kind = at(ptr %computed, i64 8)
  %is.value = icmp eq ptr %value.kind, inttoptr (i64 $Value to ptr)
  br i1 %is.value, label %of.value, label %closure
of.value:
  %value.spec = at(ptr %computed, i64 $Value_spec)
  br label %spec.known
spec.known:
  %spec = phi ptr [ %node.spec, %of.node ], [ %value.spec, %of.value ]
  %inexact = call i1 @inexact(ptr %spec)
  br i1 %inexact, label %exponent, label %closure
exponent:
  %number = call i64 @PyLong_AsLongAndOverflow(ptr %right, ptr %overflow)
  %index = sub i64 %number, $least_exponent
  %over = load i32, ptr %overflow
  %fits = icmp eq i32 %over, 0
  %listed = icmp ult i64 %index, $exponents
  %structural = and i1 %fits, %listed
  br i1 %structural, label %program, label %leaf
program:
  %contexts.offset = add i64 $tuple_items, 24
  %contexts = at(ptr %context, i64 %contexts.offset)
  %scaled = shl i64 %index, 3
  %item = add i64 %scaled, $tuple_items
  %chosen = at(ptr %contexts, i64 %item)
  %answer.program = call ptr @unary(ptr %chosen, ptr %left)
  ret ptr %answer.program
closure:
  %closure.offset = add i64 $tuple_items, 8
  %python = at(ptr %context, i64 %closure.offset)
  %answer.python = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(
      ptr %python, ptr %left, ptr %right, ptr null)
  ret ptr %answer.python
leaf:
  %answer = call ptr @binary(ptr %context, ptr %left, ptr %right)
  ret ptr %answer
}
"""
