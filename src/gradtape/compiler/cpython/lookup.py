"""Lookup: what the native recorder asks of a recording, its table and its handles, as IR.

A known application is found in a cache of the thread's table, a `bytes` object of two-way sets, by
op, first node and a third word: the other node, the params, or for a Python scalar its number
among the leaves and its kind. The cache only repeats what the table's dictionary says, and the
dictionary, from which nothing is ever removed, keeps alive what the cache points to.

Nothing here clears an error: it may be an interrupt. Whoever goes on to Python looks first.

Names with a dollar are offsets and addresses.
"""

from __future__ import annotations

from gradtape.compiler.cpython.call_context import known_object
from gradtape.compiler.emit.writer import Routine

# Sets of two entries of 32 bytes: a cache line each.
SETS = 4096
CACHE_BYTES = SETS * 64

# What is called by name.
FUNCTIONS = (
    "PyBytes_FromStringAndSize",
    "PyDict_GetItemWithError",
    "PyErr_Occurred",
    "PyList_Append",
    "PyLong_AsLongAndOverflow",
    "PyLong_AsSsize_t",
    "PyLong_FromSsize_t",
    "PyObject_CallFunctionObjArgs",
    "PyObject_CallNoArgs",
    "PyObject_CallOneArg",
    "PyObject_Vectorcall",
    "PyThreadState_Get",
    "PyThreadState_GetID",
    "PyTuple_Pack",
    "PyType_GenericAlloc",
    "PyType_IsSubtype",
    "Py_DecRef",
    "Py_IncRef",
)


def item(r: Routine, holder: str, number: int) -> str:
    """An item of a tuple."""
    return r.pointer(r.at(holder, "$tuple_items"), 8 * number)


def is_a(r: Routine, thing: str, name: str) -> str:
    """Whether an object is of exactly this class."""
    return r.same(r.pointer(thing, 8), known_object(name))


def lookup_ir() -> str:
    """What every path of the recorder uses."""
    parts = (
        _result_kind,
        _meet,
        _node_of,
        _inexact,
        _cache_of,
        _set_of,
        _known,
        _learn,
        _leaf_of,
        _commit,
    )
    memset = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n"
    return "\n".join([memset, *[part() for part in parts]])


def current_ir() -> str:
    """The recording of the running thread, null if it is not a plain one.

    The thread's `state.__dict__` is remembered for the thread that recorded last.
    """
    r = Routine("internal ptr @current()")
    thread = r.call("ptr", "@PyThreadState_Get")
    number = r.call("i64", "@PyThreadState_GetID", f"ptr {thread}")
    r.go_if(r.equal(number, r.word("@thread")), "known")
    fresh = r.call("ptr", "@PyObject_CallNoArgs", f"ptr {known_object('local_dictionary')}")
    r.go_if_null(fresh, "nowhere")
    old = r.pointer("@local")
    r.put_pointer("@local", 0, fresh)
    r.put("@thread", 0, number)
    r.go_if_null(old, "known")
    r.do("@Py_DecRef", f"ptr {old}")
    # What died with it may have recorded in another thread: the state is read anew.
    r.give(r.let("tail call ptr @current()"))
    r.block("known")
    name = known_object("recording_name")
    found = r.call("ptr", "@PyDict_GetItemWithError", f"ptr {r.pointer('@local')}", f"ptr {name}")
    r.go_if_null(found, "nowhere")
    r.give(r.select(is_a(r, found, "Recording"), found, "null", "ptr"))
    r.block("nowhere")
    r.give("null")
    return f"@thread = internal global i64 -1\n@local = internal global ptr null\n{r.text()}"


def _result_kind() -> str:
    """The class of what an op on this class gives, null if only the closure knows."""
    r = Routine("internal ptr @result_kind(ptr %kind)")
    r.block("look")
    r.line(f"%place = phi ptr [ {known_object('kinds')}, %entry ], [ %next, %more ]")
    known = r.pointer("%place")
    r.go_if(r.same(known, "%kind"), "found")
    r.go_if(r.differ(known, "null"), "more")
    r.give("null")
    r.block("more")
    r.line("%next = getelementptr i8, ptr %place, i64 16")
    r.go("look")
    r.block("found")
    r.give(r.pointer("%place", 8))
    return r.text()


def _meet() -> str:
    """Enter the class of an operand in the list of kinds, if it is a class of tensors."""
    r = Routine("internal void @meet(ptr %x)")
    kind, tensor = r.pointer("%x", 8), known_object("Tensor")
    is_tensor = r.call("i32", "@PyType_IsSubtype", f"ptr {kind}", f"ptr {tensor}")
    r.go_if(r.compare("eq", is_tensor, 0, "i32"), "done")
    learn = known_object("learn_kind")
    answer = r.call("ptr", "@PyObject_CallOneArg", f"ptr {learn}", f"ptr {kind}")
    r.go_if_null(answer, "done")
    r.do("@Py_DecRef", f"ptr {answer}")
    r.block("done")
    r.end("ret void")
    return r.text()


def _node_of() -> str:
    """The node by which the recording knows a handle, or null."""
    r = Routine("internal ptr @node_of(ptr %x, ptr %recording, ptr %stamp)")
    r.go_if(r.differ(r.pointer("%x", "$Handle_recording"), "%recording"), "computed")
    pending = r.pointer("%x", "$Handle_node"), r.here
    r.go("check")
    r.block("computed")
    value = r.pointer("%x", "$Handle_computed")
    r.go_if_null(value, "unknown")
    r.go_if(r.negated(is_a(r, value, "Value")), "unknown")
    pair = r.pointer(value, "$Value_entry")
    r.go_if(r.differ(item(r, pair, 0), "%stamp"), "unknown")
    entered = item(r, pair, 1), r.here
    r.block("check")
    found = r.phi("ptr", pending, entered)
    r.go_if_null(found, "unknown")
    r.give(r.select(is_a(r, found, "Node"), found, "null", "ptr"))
    r.block("unknown")
    r.give("null")
    return r.text()


def _inexact() -> str:
    """Whether a spec is of a floating-point or complex dtype."""
    r = Routine("internal i1 @inexact(ptr %spec)")
    with r.when(is_a(r, "%spec", "Spec")):
        r.give(r.same(r.pointer("%spec", "$Spec_inexact"), known_object("True")), "i1")
    r.give("false", "i1")
    return r.text()


def _cache_of() -> str:
    """The memory of a table's cache, made when it is first asked for."""
    r = Routine("internal ptr @cache_of(ptr %table)")
    cache = r.pointer("%table", "$Table_cache")
    with r.when(is_a(r, cache, "bytes")):
        r.give(r.at(cache, "$bytes_content"))
    fresh = r.call("ptr", "@PyBytes_FromStringAndSize", "ptr null", "i64 $cache_bytes")
    r.go_if_null(fresh, "no")
    content = r.at(fresh, "$bytes_content")
    r.do("@llvm.memset.p0.i64", f"ptr {content}", "i8 0", "i64 $cache_bytes", "i1 false")
    r.put_pointer("%table", "$Table_cache", fresh)
    r.do("@Py_DecRef", f"ptr {cache}")
    r.give(content)
    r.block("no")
    r.give("null")
    return r.text()


def _set_of() -> str:
    """The set of entries in which an application is, if it is in the cache."""
    r = Routine("internal ptr @set_of(ptr %cache, ptr %op, ptr %first, i64 %third)")
    op = r.multiply(r.let("ptrtoint ptr %op to i64"), -7046029254386353131)
    mixed = r.add(op, r.multiply("%third", -4658895280553007687))
    mixed = r.let(f"xor i64 {mixed}, {r.let('ptrtoint ptr %first to i64')}")
    number = r.let(f"lshr i64 {r.multiply(mixed, -7046029254386353131)}, $set_shift")
    r.give(r.at("%cache", r.let(f"shl i64 {number}, 6")))
    return r.text()


_KEY = ("ptr %op", "ptr %first", "i64 %third")


def _known() -> str:
    """The node of an application in the cache, or null."""
    r = Routine("internal ptr @known(ptr %cache, ptr %op, ptr %first, i64 %third)")
    ways = r.call("ptr", "@set_of", "ptr %cache", *_KEY)
    for way in (0, 32):
        op, first = r.pointer(ways, way), r.pointer(ways, way + 8)
        nodes = r.both(r.same(op, "%op"), r.same(first, "%first"))
        with r.when(r.both(nodes, r.equal(r.word(ways, way + 16), "%third"))):
            r.give(r.pointer(ways, way + 24))
    r.give("null")
    return r.text()


def _learn() -> str:
    """Ask the dictionary for (op, one, two), or (op, one) if two is null; remember the answer."""
    r = Routine(
        "internal i1 @learn(ptr %table, ptr %op, ptr %first, i64 %third, ptr %one, ptr %two)"
    )
    # The arguments end at a null.
    size = r.select(r.same("%two", "null"), 2, 3)
    parts = (f"i64 {size}", "ptr %op", "ptr %one", "ptr %two")
    key = r.call("ptr (i64, ...)", "@PyTuple_Pack", *parts)
    r.go_if_null(key, "no")
    dictionary = r.pointer("%table", "$Table_nodes")
    node = r.call("ptr", "@PyDict_GetItemWithError", f"ptr {dictionary}", f"ptr {key}")
    r.do("@Py_DecRef", f"ptr {key}")
    r.go_if_null(node, "no")
    cache = r.call("ptr", "@cache_of", "ptr %table")
    r.go_if_null(cache, "no")
    ways = r.call("ptr", "@set_of", f"ptr {cache}", *_KEY)
    older = r.let(f"load <4 x i64>, ptr {ways}, align 1")
    r.line(f"store <4 x i64> {older}, ptr {r.at(ways, 32)}, align 1")
    r.put_pointer(ways, 0, "%op")
    r.put_pointer(ways, 8, "%first")
    r.put(ways, 16, "%third")
    r.put_pointer(ways, 24, node)
    r.give("true", "i1")
    r.block("no")
    r.give("false", "i1")
    return r.text()


def _leaf_of() -> str:
    """The leaf of a scalar of this kind beside a value of this spec, if the table has it."""
    r = Routine("internal ptr @leaf_of(ptr %table, ptr %spec, ptr %kind, i64 %ordinal)")
    scalars = r.pointer("%spec", "$Spec_scalars")
    of = r.call("ptr", "@PyDict_GetItemWithError", f"ptr {scalars}", "ptr %kind")
    r.go_if_null(of, "no")
    position = r.call("ptr", "@PyLong_FromSsize_t", "i64 %ordinal")
    r.go_if_null(position, "no")
    key = r.call("ptr (i64, ...)", "@PyTuple_Pack", "i64 2", f"ptr {of}", f"ptr {position}")
    r.do("@Py_DecRef", f"ptr {position}")
    r.go_if_null(key, "no")
    dictionary = r.pointer("%table", "$Table_nodes")
    leaf = r.call("ptr", "@PyDict_GetItemWithError", f"ptr {dictionary}", f"ptr {key}")
    r.do("@Py_DecRef", f"ptr {key}")
    r.give(leaf)
    r.block("no")
    r.give("null")
    return r.text()


def _commit() -> str:
    """Enter an application and give the handle, which is taken over, its content.

    A null says that the closure has to be asked after all; the handle is gone then. Only memory
    can fail after the first comparisons.
    """
    r = Routine(
        "internal ptr @commit(ptr %recording, ptr %stamp, ptr %node, ptr %handle, ptr %scalar)"
    )

    def append(name: str, thing: str) -> None:
        listed = r.pointer("%recording", f"$Recording_{name}")
        failed = r.call("i32", "@PyList_Append", f"ptr {listed}", f"ptr {thing}")
        r.go_if(r.compare("ne", failed, 0, "i32"), "refuse")

    old = r.pointer("%node", "$Node_stamp")
    # Only a smaller stamp says that the recording has not applied the node: `has_applied`.
    last, own = [r.call("i64", "@PyLong_AsSsize_t", f"ptr {each}") for each in (old, "%stamp")]
    r.go_if(r.compare("sge", last, own), "refuse")
    handles = r.pointer("%recording", "$Recording_handles")
    r.go_if(r.negated(is_a(r, handles, "list")), "refuse")
    with r.when(r.differ("%scalar", "null")):
        append("leaves", "%scalar")
    append("nodes", "%node")
    r.do("@Py_IncRef", "ptr %stamp")
    r.put_pointer("%node", "$Node_stamp", "%stamp")
    r.do("@Py_DecRef", f"ptr {old}")
    slots = {"node": "%node", "recording": "%recording", "computed": known_object("None")}
    for name, content in slots.items():
        r.do("@Py_IncRef", f"ptr {content}")
        r.put_pointer("%handle", f"$Handle_{name}", content)
    append("handles", "%handle")
    r.give("%handle")
    r.block("refuse")
    r.do("@Py_DecRef", "ptr %handle")
    r.give("null")
    return r.text()
