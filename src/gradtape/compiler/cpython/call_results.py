"""Call results: the buffers, values and tensors that a native call makes, as IR for `caller`."""

from __future__ import annotations

from gradtape.compiler.cpython.call_context import (
    A_LEAF,
    AN_INPUT,
    AT,
    LEAF,
    ONLY,
    OTHER,
    THE_OBJECT,
    TUPLE,
    UPDATE,
    known_object,
)
from gradtape.compiler.emit.writer import Routine


def address_ir() -> str:
    """The address of the elements of a value; 0 after an error."""
    r = Routine("internal i64 @address(ptr %value)")
    known = r.pointer("%value", "$Value__address")
    with r.when(r.differ(known, known_object("zero"))):
        r.end(f"ret i64 {r.let(f'call i64 @PyLong_AsSsize_t(ptr {known})')}")
    found = r.let(f"call ptr @PyObject_GetAttr(ptr %value, ptr {known_object('address_name')})")
    with r.when(r.same(found, "null")):
        r.end("ret i64 0")
    number = r.let(f"call i64 @PyLong_AsSsize_t(ptr {found})")
    r.line(f"call void @Py_DecRef(ptr {found})")
    r.end(f"ret i64 {number}")
    return r.text()


def buffer_ir() -> str:
    """A buffer for a row of that table: as `allocate` makes it, which is called for fresh memory.

    Idle memory is taken here: a call of `allocate` would take as long as the rest of a small call.
    """
    r = Routine("internal ptr @buffer(ptr %row)")
    take = r.pointer("%row", 8)
    r.go_if(r.same(take, "null"), "ask")
    found = r.let(f"call ptr @PyObject_CallNoArgs(ptr {take})")
    with r.when(r.same(found, "null")):
        # Nothing is idle.
        r.line("call void @PyErr_Clear()")
        r.end("br label %ask")
    r.add_to(known_object("pool_counts"), "$count_recycled", r.word("%row", 16))
    r.end(f"ret ptr {found}")
    r.block("ask")
    allocate, size = known_object("allocate"), r.pointer("%row", 24)
    r.end(f"ret ptr {r.let(f'call ptr @PyObject_CallOneArg(ptr {allocate}, ptr {size})')}")
    return r.text()


def value_ir() -> str:
    """A value on a buffer: as `Value(buffer, spec)`, with the address known."""
    r = Routine("internal ptr @value(ptr %buffer, ptr %spec)")
    found = r.let(f"call ptr @PyType_GenericAlloc(ptr {known_object('Value')}, i64 0)")
    with r.when(r.same(found, "null")):
        r.end("ret ptr null")
    # A buffer is an int, its address.
    slots = {"content": "%buffer", "spec": "%spec", "_address": "%buffer"}
    slots["entry"] = known_object("unentered")
    for name, content in slots.items():
        r.line(f"call void @Py_IncRef(ptr {content})")
        r.put_pointer(found, f"$Value_{name}", content)
    r.end(f"ret ptr {found}")
    return r.text()


def tensor_ir() -> str:
    """A tensor of a class on a new value of a buffer: as `kind(None, None, value)`."""
    r = Routine("internal ptr @tensor(ptr %kind, ptr %buffer, ptr %spec)")
    value = r.let("call ptr @value(ptr %buffer, ptr %spec)")
    with r.when(r.same(value, "null")):
        r.end("ret ptr null")
    found = r.let("call ptr @PyType_GenericAlloc(ptr %kind, i64 0)")
    with r.when(r.same(found, "null")):
        r.line(f"call void @Py_DecRef(ptr {value})")
        r.end("ret ptr null")
    nothing = known_object("None")
    for name in ("node", "recording"):
        r.line(f"call void @Py_IncRef(ptr {nothing})")
        r.put_pointer(found, f"$Handle_{name}", nothing)
    r.put_pointer(found, "$Handle_computed", value)
    r.end(f"ret ptr {found}")
    return r.text()


def result_ir() -> str:
    """The result of the call: leaves in their structure."""
    leaf = Routine("internal ptr @leaf(ptr %context, ptr %row, ptr %made)")
    how, place = leaf.word("%row", 16), leaf.scaled(leaf.word("%row"))
    inputs = leaf.pointer("%context", AT["passed"])
    old = ((THE_OBJECT, "%row", "0"), (AN_INPUT, inputs, place), (A_LEAF, "%made", place))
    for known, table, offset in old:
        with leaf.when(leaf.equal(how, known)):
            thing = leaf.pointer(table, offset)
            leaf.line(f"call void @Py_IncRef(ptr {thing})")
            leaf.end(f"ret ptr {thing}")
    kind = leaf.pointer("%row", 16)
    taken, which = leaf.pointer("%context", AT["taken"]), leaf.scaled(leaf.word("%row"))
    buffer, of = leaf.pointer(taken, which), leaf.pointer("%row", 8)
    found = leaf.let(f"call ptr @tensor(ptr {kind}, ptr {buffer}, ptr {of})")
    leaf.end(f"ret ptr {found}")
    r = Routine("internal ptr @result(ptr %context)")
    rows, count = r.pointer("%context", AT["leaf_rows"]), r.word("%context", AT["leaves"])
    shape = r.word("%context", AT["shape"])
    with r.when(r.equal(shape, ONLY)):
        r.end(f"ret ptr {r.let(f'call ptr @leaf(ptr %context, ptr {rows}, ptr null)')}")
    for name, condition in (("Tuple", r.equal(shape, TUPLE)), ("List", r.unequal(shape, TUPLE))):
        with r.when(condition):
            whole = r.let(f"call ptr @Py{name}_New(i64 {count})")
            r.go_if(r.same(whole, "null"), "failed")
            inside = r.at(whole, "$tuple_items")
            items = inside if name == "Tuple" else r.pointer(whole, "$list_items")
            with r.loop(count) as index:
                row = r.row(rows, index, LEAF)
                found = r.let(f"call ptr @leaf(ptr %context, ptr {row}, ptr {items})")
                with r.when(r.same(found, "null")):
                    r.line(f"call void @Py_DecRef(ptr {whole})")
                    r.end("ret ptr null")
                r.line(f"call i32 @Py{name}_SetItem(ptr {whole}, i64 {index}, ptr {found})")
            if name == "List":
                with r.when(r.equal(shape, OTHER)):
                    make = r.pointer("%context", AT["unflatten"])
                    structure = r.pointer("%context", AT["structure"])
                    found = r.let(
                        f"call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr {make}, "
                        f"ptr {structure}, ptr {whole}, ptr null)"
                    )
                    r.line(f"call void @Py_DecRef(ptr {whole})")
                    r.end(f"ret ptr {found}")
            r.end(f"ret ptr {whole}")
    r.block("failed")
    r.end("ret ptr null")
    return leaf.text() + r.text()


def assign_ir() -> str:
    """Assign the variables: one call of `assign` with a tensor on the buffer of each."""
    r = Routine("internal i1 @assign(ptr %context)")
    count, handles = r.word("%context", AT["updates"]), r.pointer("%context", AT["handles"])
    with r.when(r.equal(count, 0)):
        r.end("ret i1 true")
    rows, taken = r.pointer("%context", AT["update_rows"]), r.pointer("%context", AT["taken"])
    with r.loop(count) as index:
        row = r.row(rows, index, UPDATE)
        buffer, spec = r.pointer(taken, r.scaled(r.word(row))), r.pointer(row, 8)
        kind = known_object("Tensor")
        handle = r.let(f"call ptr @tensor(ptr {kind}, ptr {buffer}, ptr {spec})")
        r.go_if(r.same(handle, "null"), "failed")
        r.put_pointer(handles, r.scaled(index), handle)
    call = f"ptr {r.pointer('%context', AT['assign'])}, ptr {handles}, i64 {count}, ptr null"
    answer = r.let(f"call ptr @PyObject_Vectorcall({call})")
    r.go_if(r.same(answer, "null"), "failed")
    r.line(f"call void @Py_DecRef(ptr {answer})")
    r.end("ret i1 true")
    r.block("failed")
    r.end("ret i1 false")
    return r.text()
