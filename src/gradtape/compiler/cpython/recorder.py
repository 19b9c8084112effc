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

from gradtape.compiler.cpython.call_context import known_object
from gradtape.compiler.cpython.lookup import current, is_a, item, lookups
from gradtape.compiler.emit.writer import Routine, module

# Operators with a slot of their own, and whether operands are exchanged to record `1.0 + x`.
BINARY_SLOTS = {"add": True, "subtract": False, "multiply": True, "divide": False, "matmul": False}
# Integer exponents that are part of the program, not leaves.
EXPONENTS = range(-8, 9)

_CALL = ("ptr (ptr, ...)", "@PyObject_CallFunctionObjArgs")


def recorder_ir(facts: Mapping[str, int]) -> str:
    """The module. `facts` are offsets and addresses, also those of contexts."""
    slots = [_slot(name, commutes) for name, commutes in BINARY_SLOTS.items()]
    parts = [
        *lookups(),
        *current(),
        _unary(),
        _binary(reflected=False),
        _binary(reflected=True),
        _is_left(),
        *_functions(),
        _negative(),
        _compare(),
        *slots,
        _power(),
    ]
    return Template(module(*parts)).substitute({name: str(at) for name, at in facts.items()})


class _Path:
    """The path of one application: `begin`, the third word of its key, `find`, `learn`, `end`."""

    def __init__(self, head: str, operands: tuple[str, str], closure: int) -> None:
        self.r = Routine(f"internal ptr @{head}")
        self._operands, self._closure = operands, closure

    def begin(self) -> None:
        """Make the handle; find the recording, and in it the node `a` of operand `%x`."""
        r = self.r
        kind = r.call("ptr", "@result_kind", r.pointer("%x", 8))
        r.go_if_null(kind, "unknown")
        self._handle = r.call("ptr", "@PyType_GenericAlloc", kind, 0)
        r.go_if_null(self._handle, "fail")
        made = r.here
        r.block("start")
        self._again = r.phi("i1", ("false", made), ("true", "learned"))
        self.recording = r.call("ptr", "@current")
        r.go_if_null(self.recording, "drop")
        self._stamp = r.pointer(self.recording, "$Recording_stamp")
        self.table = r.pointer(self.recording, "$Recording_table")
        self.a = self.node_of("%x")

    def node_of(self, operand: str) -> str:
        """The node of a handle of the recording."""
        known = (self.recording, self._stamp)
        node = self.r.call("ptr", "@node_of", operand, *known)
        self.r.go_if_null(node, "drop")
        return node

    def find(self, third: str, scalar: str) -> None:
        """Find the node in the cache and enter the application; else in the dictionary, once."""
        r = self.r
        op = item(r, "%context", 0)
        self._key = (op, self.a, third)
        cache = r.call("ptr", "@cache_of", self.table)
        r.go_if_null(cache, "drop")
        node = r.call("ptr", "@known", cache, *self._key)
        r.go_if_null(node, "learn")
        entered = (self.recording, self._stamp, node, self._handle, scalar)
        result = r.call("ptr", "@commit", *entered)
        r.go_if_null(result, "closure")
        r.give(result)
        r.block("learn")
        r.go_if(self._again, "drop")
        for each in (self.table, self.a):
            r.do("@Py_IncRef", each)

    def learn(self, one: str, two: str) -> str:
        """Whether the dictionary has the application with these parts of its key."""
        parts = (one, two)
        return self.r.call("i1", "@learn", self.table, *self._key, *parts)

    def end(self, *ways: tuple[str, str]) -> Routine:
        """Start over if the application was learned; call the closure if it was not."""
        r = self.r
        r.block("learned")
        known = r.phi("i1", *ways)
        for each in (self.a, self.table):
            r.do("@Py_DecRef", each)
        r.branch(known, "start", "drop")
        r.block("unknown")
        r.do("@meet", "%x")
        r.go("closure")
        r.block("drop")
        r.do("@Py_DecRef", self._handle)
        r.block("closure")
        # The look-up may have met an interrupt, or have found no memory.
        r.go_if(r.unequal(r.call("ptr", "@PyErr_Occurred"), "null"), "fail")
        function = item(r, "%context", self._closure)
        arguments = (function, *self._operands, "null")
        r.give(r.call("ptr (ptr, ...)", "@PyObject_CallFunctionObjArgs", *arguments))
        r.block("fail")
        r.give("null")
        return r


def _unary() -> Routine:
    path = _Path("unary(ptr %context, ptr %x)", ("%x", "null"), closure=1)
    r = path.r
    path.begin()
    params = item(r, "%context", 3)
    path.find(r.cast("ptrtoint", params, "i64"), "null")
    plain = r.equal(params, known_object("None"))
    one = r.select(plain, path.a, params, "ptr")
    learned = path.learn(one, r.select(plain, "null", path.a, "ptr"))
    return path.end((learned, r.here))


def _binary(reflected: bool) -> Routine:
    """Operand `%x` is a handle: the left one or, reflected, the right one beside a scalar."""
    name = "reflected" if reflected else "binary"
    head = f"{name}(ptr %context, ptr %x, ptr %y)"
    path = _Path(head, ("%x", "%y"), closure=2 if reflected else 1)
    r = path.r
    path.begin()
    kind, spec = r.pointer("%y", 8), r.pointer(path.a, "$Node_spec")
    is_float, entered = r.equal(kind, known_object("float")), r.here
    r.go_if(is_float, "number")
    r.go_if(r.unequal(kind, known_object("int")), "drop" if reflected else "other")
    adapts, tested = r.call("i1", "@inexact", spec), r.here
    r.go_if(adapts, "number")
    r.go("drop")
    # The third word of a scalar: its number among the leaves, its kind, and on which side it is.
    r.block("number")
    kind_bit = r.phi("i64", (0, entered), (2, tested))
    number = r.word(r.pointer(path.recording, "$Recording_leaves"), "$list_size")
    tagged = r.op("or", r.scaled(number), 5 if reflected else 1)
    # By way: the third word, the scalar, the node of `%y`, and the number of the leaf.
    ways: list[tuple[tuple[str | int, ...], str]] = [
        ((r.op("or", tagged, kind_bit), "%y", "null", number), r.here)
    ]
    r.go("find")
    if not reflected:
        r.block("other")
        r.go_if_null(r.call("ptr", "@result_kind", kind), "drop")
        node = path.node_of("%y")
        ways.append(((r.cast("ptrtoint", node, "i64"), "null", node, 0), r.here))
    r.block("find")
    third, scalar, other, place = [
        r.phi(type_, *[(values[index], block) for values, block in ways])
        for index, type_ in enumerate(("i64", "ptr", "ptr", "i64"))
    ]
    path.find(third, scalar)
    is_node, before = r.unequal(other, "null"), r.here
    r.go_if(is_node, "found")
    where = (path.table, spec, kind, place)
    leaf, searched = r.call("ptr", "@leaf_of", *where), r.here
    r.go_if_null(leaf, "learned")
    after = r.here
    r.block("found")
    b = r.phi("ptr", (other, before), (leaf, after))
    r.do("@Py_IncRef", b)
    learned = path.learn(*((b, path.a) if reflected else (path.a, b)))
    r.do("@Py_DecRef", b)
    return path.end(("false", searched), (learned, r.here))


def _is_left() -> Routine:
    """Whether the left operand of an operator is a tensor; else the right one is."""
    r = Routine("internal i1 @is_left(ptr %x)")
    kind = r.pointer("%x", 8)
    r.give_if(r.equal(kind, known_object("float")), "false")
    r.give_if(r.unequal(r.call("ptr", "@result_kind", kind), "null"), "true")
    tensor = known_object("Tensor")
    is_tensor = r.call("i32", "@PyType_IsSubtype", kind, tensor)
    r.give(r.unequal(is_tensor, 0))
    return r


def _functions() -> list[Routine]:
    """Bodies of built-in functions, whose self is the context."""
    unary = Routine("ptr @unary_function(ptr %context, ptr %x)")
    unary.give_call("@unary", "%context", "%x")
    r = Routine("ptr @binary_function(ptr %context, ptr %arguments, i64 %count)")
    with r.when(r.unequal("%count", 2)):
        function = item(r, "%context", 1)
        given = (function, "%arguments", "%count", "null")
        r.give(r.call("ptr", "@PyObject_Vectorcall", *given))
    x, y = r.pointer("%arguments"), r.pointer("%arguments", 8)
    with r.when(r.either(is_a(r, x, "float"), is_a(r, x, "int"))):
        r.give_call("@reflected", "%context", y, x)
    r.give_call("@binary", "%context", x, y)
    return [unary, r]


def _negative() -> Routine:
    r = Routine("ptr @slot_negative(ptr %x)")
    r.give_call("@unary", known_object("context_negative"), "%x")
    return r


def _compare() -> Routine:
    """The context of this slot holds those of the comparisons, as Python numbers them."""
    r = Routine("ptr @slot_compare(ptr %x, ptr %y, i32 %comparison)")
    place = r.scaled(r.cast("zext", "%comparison", "i64"))
    contexts = r.at(known_object("context_compare"), "$tuple_items")
    r.give_call("@binary", r.pointer(contexts, place), "%x", "%y")
    return r


def _slot(name: str, commutes: bool) -> Routine:
    r, context = (
        Routine(f"ptr @slot_{name}(ptr %left, ptr %right)"),
        known_object(f"context_{name}"),
    )
    with r.when(r.call("i1", "@is_left", "%left")):
        r.give_call("@binary", context, "%left", "%right")
    r.give_call("@binary" if commutes else "@reflected", context, "%right", "%left")
    return r


def _power() -> Routine:
    """The fourth item of this context holds those of the integer exponents that are not leaves."""
    r = Routine("ptr @slot_pow(ptr %left, ptr %right, ptr %modulus)")
    overflow = r.alloca("i32")
    context = known_object("context_pow")
    in_python = item(r, context, 1)
    operands = ("%left", "%right")
    with r.when(r.unequal("%modulus", known_object("None"))):
        r.give(r.call(*_CALL, in_python, *operands, "%modulus", "null"))
    with r.when(r.negated(r.call("i1", "@is_left", "%left"))):
        r.give_call("@reflected", context, "%right", "%left")
    r.go_if(r.negated(is_a(r, "%right", "int")), "as_leaf")
    r.go_if_null(r.call("ptr", "@result_kind", r.pointer("%left", 8)), "as_leaf")
    node = r.pointer("%left", "$Handle_node")
    r.go_if_null(node, "closure")
    r.go_if(r.negated(is_a(r, node, "Node")), "value")
    pending = r.pointer(node, "$Node_spec"), r.here
    r.go("spec")
    r.block("value")
    value = r.pointer("%left", "$Handle_computed")
    r.go_if_null(value, "closure")
    r.go_if(r.negated(is_a(r, value, "Value")), "closure")
    computed = r.pointer(value, "$Value_spec"), r.here
    r.block("spec")
    spec = r.phi("ptr", pending, computed)
    r.go_if(r.negated(r.call("i1", "@inexact", spec)), "closure")
    number = r.call("i64", "@PyLong_AsLongAndOverflow", "%right", overflow)
    index = r.subtract(number, "$least_exponent")
    fits = r.equal(r.load("i32", overflow), 0)
    with r.when(r.both(fits, r.compare("ult", index, "$exponents"))):
        chosen = r.pointer(r.at(item(r, context, 3), "$tuple_items"), r.scaled(index))
        r.give(r.call("ptr", "@unary", chosen, "%left"))
    r.block("as_leaf")
    r.give(r.call("ptr", "@binary", context, *operands))
    r.block("closure")
    r.give(r.call(*_CALL, in_python, *operands, "null"))
    return r
