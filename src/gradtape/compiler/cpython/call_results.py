"""Call results: the buffers, values and tensors that a native call makes, as IR for `caller`."""

from __future__ import annotations

from gradtape.compiler.cpython.call_context import (
    A_LEAF,
    AN_INPUT,
    LEAF,
    ONLY,
    OTHER,
    THE_OBJECT,
    TUPLE,
    UPDATE,
    Context,
    known_object,
)
from gradtape.compiler.emit.writer import Routine


def results() -> list[Routine]:
    """The functions of this page."""
    return [_address(), _buffer(), _value(), _tensor(), _leaf(), _result(), _assign()]


def _address() -> Routine:
    """The address of the elements of a value; 0 after an error."""
    r = Routine("internal i64 @address(ptr %value)")
    known = r.pointer("%value", "$Value__address")
    with r.when(r.unequal(known, known_object("zero"))):
        r.give(r.call("i64", "@PyLong_AsSsize_t", known))
    found = r.call("ptr", "@PyObject_GetAttr", "%value", known_object("address_name"))
    r.give_if(r.equal(found, "null"), 0)
    number = r.call("i64", "@PyLong_AsSsize_t", found)
    r.do("@Py_DecRef", found)
    r.give(number)
    return r


def _buffer() -> Routine:
    """A buffer for a row of that table: as `allocate` makes it, which is called for fresh memory.

    Idle memory is taken here: a call of `allocate` would take as long as the rest of a small call.
    """
    r = Routine("internal ptr @buffer(ptr %row)")
    take = r.pointer("%row", 8)
    r.go_if_null(take, "allocate")
    found = r.call("ptr", "@PyObject_CallNoArgs", take)
    with r.when(r.equal(found, "null")):
        # Nothing is idle.
        r.do("@PyErr_Clear")
        r.go("allocate")
    r.add_to(known_object("pool_counts"), "$count_recycled", r.word("%row", 16))
    r.give(found)
    r.block("allocate")
    r.give(r.call("ptr", "@PyObject_CallOneArg", known_object("allocate"), r.pointer("%row", 24)))
    return r


def _set_slots(r: Routine, thing: str, kind: str, **contents: str) -> None:
    """Fill slots of a new object, which holds references to their contents."""
    for name, content in contents.items():
        r.do("@Py_IncRef", content)
        r.put_pointer(thing, f"${kind}_{name}", content)


def _value() -> Routine:
    """A value on a buffer: as `Value(buffer, spec)`, with the address known."""
    r = Routine("internal ptr @value(ptr %buffer, ptr %spec)")
    found = r.call("ptr", "@PyType_GenericAlloc", known_object("Value"), 0)
    r.give_if_null(found)
    # A buffer is an int, its address.
    slots = {"content": "%buffer", "spec": "%spec", "_address": "%buffer"}
    _set_slots(r, found, "Value", **slots, entry=known_object("unentered"))
    r.give(found)
    return r


def _tensor() -> Routine:
    """A tensor of a class on a new value of a buffer: as `kind(None, None, value)`."""
    r = Routine("internal ptr @tensor(ptr %kind, ptr %buffer, ptr %spec)")
    value = r.call("ptr", "@value", "%buffer", "%spec")
    r.give_if_null(value)
    found = r.call("ptr", "@PyType_GenericAlloc", "%kind", 0)
    with r.when(r.equal(found, "null")):
        r.do("@Py_DecRef", value)
        r.give("null")
    nothing = known_object("None")
    _set_slots(r, found, "Handle", node=nothing, recording=nothing)
    r.put_pointer(found, "$Handle_computed", value)
    r.give(found)
    return r


def _leaf() -> Routine:
    """A leaf of the result."""
    r = Routine("internal ptr @leaf(ptr %context, ptr %row, ptr %made)")
    context = Context(r)
    how, place = r.word("%row", 16), r.scaled(r.word("%row"))
    inputs = context.pointer("passed")
    old = ((THE_OBJECT, "%row", "0"), (AN_INPUT, inputs, place), (A_LEAF, "%made", place))
    for known, table, offset in old:
        with r.when(r.equal(how, known)):
            thing = r.pointer(table, offset)
            r.do("@Py_IncRef", thing)
            r.give(thing)
    buffer = r.pointer(context.pointer("taken"), place)
    r.give(r.call("ptr", "@tensor", r.pointer("%row", 16), buffer, r.pointer("%row", 8)))
    return r


def _result() -> Routine:
    """The result of the call: leaves in their structure."""
    r = Routine("internal ptr @result(ptr %context)")
    context = Context(r)
    rows, count = context.pointer("leaf_rows"), context.word("leaves")
    shape = context.word("shape")
    with r.when(r.equal(shape, ONLY)):
        r.give(r.call("ptr", "@leaf", "%context", rows, "null"))
    for name, condition in (("Tuple", r.equal(shape, TUPLE)), ("List", r.unequal(shape, TUPLE))):
        with r.when(condition):
            whole = r.call("ptr", f"@Py{name}_New", count)
            r.go_if_null(whole, "failed")
            inside = r.at(whole, "$tuple_items")
            items = inside if name == "Tuple" else r.pointer(whole, "$list_items")
            with r.loop(count) as index:
                found = r.call("ptr", "@leaf", "%context", r.row(rows, index, LEAF), items)
                with r.when(r.equal(found, "null")):
                    r.do("@Py_DecRef", whole)
                    r.give("null")
                r.call("i32", f"@Py{name}_SetItem", whole, index, found)
            if name == "List":
                with r.when(r.equal(shape, OTHER)):
                    make = (context.pointer("unflatten"), context.pointer("structure"))
                    call = ("ptr (ptr, ...)", "@PyObject_CallFunctionObjArgs")
                    found = r.call(*call, *make, whole, "null")
                    r.do("@Py_DecRef", whole)
                    r.give(found)
            r.give(whole)
    r.block("failed")
    r.give("null")
    return r


def _assign() -> Routine:
    """Assign the variables: one call of `assign` with a tensor on the buffer of each."""
    r = Routine("internal i1 @assign(ptr %context)")
    context = Context(r)
    count, handles = context.word("updates"), context.pointer("handles")
    r.give_if(r.equal(count, 0), "true")
    taken = context.pointer("taken")
    with context.rows("updates", "update_rows", UPDATE) as (index, row):
        buffer, spec = r.pointer(taken, r.scaled(r.word(row))), r.pointer(row, 8)
        handle = r.call("ptr", "@tensor", known_object("Tensor"), buffer, spec)
        r.give_if_null(handle, "false")
        r.put_pointer(handles, r.scaled(index), handle)
    assigned = r.call(
        "ptr", "@PyObject_Vectorcall", context.pointer("assign"), handles, count, "null"
    )
    r.give_if_null(assigned, "false")
    r.do("@Py_DecRef", assigned)
    r.give("true")
    return r
