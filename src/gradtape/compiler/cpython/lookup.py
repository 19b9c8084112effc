"""Lookup: what the native recorder reads of a recording, its table and its handles, as IR.

A known application is found in a cache of the thread's table, a `bytes` object of two-way sets, by
op, first node and a third word: the other node, the params, or for a Python scalar its number
among the leaves and its kind. The cache only repeats what the table's dictionary says, and the
dictionary, from which nothing is ever removed, keeps alive what the cache points to.

Nothing here clears an error: it may be an interrupt. Code that goes on to Python checks for one.

Names with a dollar are offsets and addresses.
"""

from __future__ import annotations

from gradtape.compiler.cpython.call_context import known_object
from gradtape.compiler.emit.writer import Routine
from gradtape.config import APPLICATION_CACHE_SETS

CACHE_BYTES = APPLICATION_CACHE_SETS * 64


def item(r: Routine, holder: str, number: int) -> str:
    """An item of a tuple."""
    return r.pointer(r.at(holder, "$tuple_items"), 8 * number)


def is_a(r: Routine, thing: str, name: str) -> str:
    """Whether an object is of exactly this class."""
    return r.equal(r.pointer(thing, 8), known_object(name))


def lookups() -> list[Routine]:
    """Parts that every path of the recorder uses."""
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
    return [part() for part in parts]


def current() -> list[Routine | str]:
    """The recording of the running thread, null if it is not a plain one.

    The thread's `state.__dict__` is remembered for the thread that recorded last.
    """
    r = Routine("internal ptr @current()")
    thread = r.call("ptr", "@PyThreadState_Get")
    number = r.call("i64", "@PyThreadState_GetID", thread)
    r.go_if(r.equal(number, r.word("@thread")), "known")
    fresh = r.call("ptr", "@PyObject_CallNoArgs", known_object("local_dictionary"))
    r.go_if_null(fresh, "nowhere")
    old = r.pointer("@local")
    r.put_pointer("@local", 0, fresh)
    r.put("@thread", 0, number)
    r.go_if_null(old, "known")
    r.do("@Py_DecRef", old)
    # What died with it may have recorded in another thread: the state is read anew.
    r.give_call("@current")
    r.block("known")
    name = known_object("recording_name")
    found = r.call("ptr", "@PyDict_GetItemWithError", r.pointer("@local"), name)
    r.go_if_null(found, "nowhere")
    r.give(r.select(is_a(r, found, "Recording"), found, "null", "ptr"))
    r.block("nowhere")
    r.give("null")
    return ["@thread = internal global i64 -1", "@local = internal global ptr null", r]


def _result_kind() -> Routine:
    """The class of the result of an op on this class, null if only the closure has it."""
    r = Routine("internal ptr @result_kind(ptr %kind)")
    r.block("test")
    place = r.phi("ptr", (known_object("kinds"), "entry"), ("%next", "more"))
    known = r.pointer(place)
    r.go_if(r.equal(known, "%kind"), "found")
    r.go_if(r.unequal(known, "null"), "more")
    r.give("null")
    r.block("more")
    r.line(f"%next = getelementptr i8, ptr {place}, i64 16")
    r.go("test")
    r.block("found")
    r.give(r.pointer(place, 8))
    return r


def _meet() -> Routine:
    """Enter the class of an operand in the list of kinds, if it is a class of tensors."""
    r = Routine("internal void @meet(ptr %x)")
    kind, tensor = r.pointer("%x", 8), known_object("Tensor")
    is_tensor = r.call("i32", "@PyType_IsSubtype", kind, tensor)
    r.go_if(r.equal(is_tensor, 0), "done")
    learn = known_object("learn_kind")
    learned = r.call("ptr", "@PyObject_CallOneArg", learn, kind)
    r.go_if_null(learned, "done")
    r.do("@Py_DecRef", learned)
    r.block("done")
    return r


def _node_of() -> Routine:
    """The node of a handle in the recording, or null."""
    r = Routine("internal ptr @node_of(ptr %x, ptr %recording, ptr %stamp)")
    r.go_if(r.unequal(r.pointer("%x", "$Handle_recording"), "%recording"), "computed")
    pending = r.pointer("%x", "$Handle_node"), r.here
    r.go("check")
    r.block("computed")
    value = r.pointer("%x", "$Handle_computed")
    r.give_if_null(value)
    r.give_if(r.negated(is_a(r, value, "Value")), "null")
    pair = r.pointer(value, "$Value_entry")
    r.give_if(r.unequal(item(r, pair, 0), "%stamp"), "null")
    entered = item(r, pair, 1), r.here
    r.block("check")
    found = r.phi("ptr", pending, entered)
    r.give_if_null(found)
    r.give(r.select(is_a(r, found, "Node"), found, "null", "ptr"))
    return r


def _inexact() -> Routine:
    """Whether a spec is of a floating-point or complex dtype."""
    r = Routine("internal i1 @inexact(ptr %spec)")
    with r.when(is_a(r, "%spec", "Spec")):
        r.give(r.equal(r.pointer("%spec", "$Spec_inexact"), known_object("True")))
    r.give("false")
    return r


def _cache_of() -> Routine:
    """The memory of a table's cache, made when it is first needed."""
    r = Routine("internal ptr @cache_of(ptr %table)")
    cache = r.pointer("%table", "$Table_cache")
    with r.when(is_a(r, cache, "bytes")):
        r.give(r.at(cache, "$bytes_content"))
    fresh = r.call("ptr", "@PyBytes_FromStringAndSize", "null", "$cache_bytes")
    r.give_if_null(fresh)
    content = r.at(fresh, "$bytes_content")
    r.fill(content, "$cache_bytes")
    r.put_pointer("%table", "$Table_cache", fresh)
    r.do("@Py_DecRef", cache)
    r.give(content)
    return r


def _set_of() -> Routine:
    """The set of entries in which an application is, if it is in the cache."""
    r = Routine("internal ptr @set_of(ptr %cache, ptr %op, ptr %first, i64 %third)")
    op = r.multiply(r.cast("ptrtoint", "%op", "i64"), -7046029254386353131)
    mixed = r.add(op, r.multiply("%third", -4658895280553007687))
    mixed = r.op("xor", mixed, r.cast("ptrtoint", "%first", "i64"))
    number = r.op("lshr", r.multiply(mixed, -7046029254386353131), "$set_shift")
    r.give(r.at("%cache", r.op("shl", number, 6)))
    return r


_KEY = ("%op", "%first", "%third")


def _known() -> Routine:
    """The node of an application in the cache, or null."""
    r = Routine("internal ptr @known(ptr %cache, ptr %op, ptr %first, i64 %third)")
    ways = r.call("ptr", "@set_of", "%cache", *_KEY)
    for way in (0, 32):
        op, first = r.pointer(ways, way), r.pointer(ways, way + 8)
        nodes = r.both(r.equal(op, "%op"), r.equal(first, "%first"))
        with r.when(r.both(nodes, r.equal(r.word(ways, way + 16), "%third"))):
            r.give(r.pointer(ways, way + 24))
    r.give("null")
    return r


def _learn() -> Routine:
    """Find (op, one, two), or (op, one) if two is null, in the dictionary, and remember it."""
    r = Routine(
        "internal i1 @learn(ptr %table, ptr %op, ptr %first, i64 %third, ptr %one, ptr %two)"
    )
    # The arguments end at a null.
    size = r.select(r.equal("%two", "null"), 2, 3)
    parts = (size, "%op", "%one", "%two")
    key = r.call("ptr (i64, ...)", "@PyTuple_Pack", *parts)
    r.give_if_null(key, "false")
    dictionary = r.pointer("%table", "$Table_nodes")
    node = r.call("ptr", "@PyDict_GetItemWithError", dictionary, key)
    r.do("@Py_DecRef", key)
    r.give_if_null(node, "false")
    cache = r.call("ptr", "@cache_of", "%table")
    r.give_if_null(cache, "false")
    ways = r.call("ptr", "@set_of", cache, *_KEY)
    r.store(r.load("<4 x i64>", ways, 1), r.at(ways, 32), align=1)
    r.put_pointer(ways, 0, "%op")
    r.put_pointer(ways, 8, "%first")
    r.put(ways, 16, "%third")
    r.put_pointer(ways, 24, node)
    r.give("true")
    return r


def _leaf_of() -> Routine:
    """The leaf of a scalar of this kind beside a value of this spec, if the table has it."""
    r = Routine("internal ptr @leaf_of(ptr %table, ptr %spec, ptr %kind, i64 %ordinal)")
    scalars = r.pointer("%spec", "$Spec_scalars")
    of = r.call("ptr", "@PyDict_GetItemWithError", scalars, "%kind")
    r.give_if_null(of)
    position = r.call("ptr", "@PyLong_FromSsize_t", "%ordinal")
    r.give_if_null(position)
    key = r.call("ptr (i64, ...)", "@PyTuple_Pack", 2, of, position)
    r.do("@Py_DecRef", position)
    r.give_if_null(key)
    dictionary = r.pointer("%table", "$Table_nodes")
    leaf = r.call("ptr", "@PyDict_GetItemWithError", dictionary, key)
    r.do("@Py_DecRef", key)
    r.give(leaf)
    return r


def _commit() -> Routine:
    """Enter an application and give the handle, which is taken over, its content.

    A null says that the closure has to be called after all; the handle is freed then. Only memory
    can fail after the first comparisons.
    """
    r = Routine(
        "internal ptr @commit(ptr %recording, ptr %stamp, ptr %node, ptr %handle, ptr %scalar)"
    )

    def append(name: str, thing: str) -> None:
        listed = r.pointer("%recording", f"$Recording_{name}")
        failed = r.call("i32", "@PyList_Append", listed, thing)
        r.go_if(r.unequal(failed, 0), "refuse")

    old = r.pointer("%node", "$Node_stamp")
    # Only a smaller stamp says that the recording has not applied the node: `has_applied`.
    last, own = [r.call("i64", "@PyLong_AsSsize_t", each) for each in (old, "%stamp")]
    r.go_if(r.compare("sge", last, own), "refuse")
    handles = r.pointer("%recording", "$Recording_handles")
    r.go_if(r.negated(is_a(r, handles, "list")), "refuse")
    with r.when(r.unequal("%scalar", "null")):
        append("leaves", "%scalar")
    append("log", "%node")
    r.do("@Py_IncRef", "%stamp")
    r.put_pointer("%node", "$Node_stamp", "%stamp")
    r.do("@Py_DecRef", old)
    slots = {"node": "%node", "recording": "%recording", "computed": known_object("None")}
    for name, content in slots.items():
        r.do("@Py_IncRef", content)
        r.put_pointer("%handle", f"$Handle_{name}", content)
    append("handles", "%handle")
    r.give("%handle")
    r.block("refuse")
    r.do("@Py_DecRef", "%handle")
    r.give("null")
    return r
