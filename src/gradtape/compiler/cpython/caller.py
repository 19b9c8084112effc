"""Caller: the native call of a captured function that is one run of one plan, as IR.

It does what `Function.__call__` does for a call that was seen before: it checks whether a tape or
a trace has to see the ops, recognises the signature by the classes and specs of the arguments,
fills the slots of the plan, runs it, and makes and assigns the results. All that it knows of a
signature is in a *context*, a row of words with tables (`call_context`). Unusual calls are left
to the method in Python, before anything has changed.

A context belongs to the thread that captured it, and is busy during a call. Everything that is
read while other Python code may run, or while the GIL is released, is held by a reference: the
owner of the context, the arguments, the values and the buffers.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

from gradtape.compiler.cpython.call_context import (
    AN_ENTRY,
    ARGUMENT,
    BUFFER,
    COMPUTED_DOUBLE,
    COMPUTED_SINGLE,
    COPIED,
    DOUBLE,
    FLOAT,
    GUARD,
    LOCK,
    MAPPING,
    NUMBER,
    OBJECT,
    PASSED,
    ROW,
    SINGLE,
    SOME_MEMORY,
    SOURCE,
    TENSOR,
    THE_FLOAT,
    THE_WORD,
    VARIABLE,
    WORD,
    Context,
    known_object,
)
from gradtape.compiler.cpython.call_results import results
from gradtape.compiler.cpython.lookup import current, is_a
from gradtape.compiler.emit.plans.instructions import STATUS
from gradtape.compiler.emit.writer import Routine, Typed, module

# The result of a run that leaves the call to Python; no object has this address.
_LEFT_TO_PYTHON = Typed("inttoptr (i64 1 to ptr)", "ptr")


def caller_ir(facts: Mapping[str, int]) -> str:
    """The module with `call`, the slot of calls. `facts` are offsets and addresses."""
    written = (_tree, _matches, _held, _source, _computed, _fill, _guards, _drop, _run)
    functions = [write() for write in (*written, _contexts, _call)]
    names = {name: str(number) for name, number in facts.items()}
    return Template(module(*current(), *results(), *functions)).substitute(names)


def _tree() -> Routine:
    """Whether an argument is as the rows from the cursor on describe it; notes its inputs."""
    r = Routine("internal i1 @tree(ptr %context, ptr %thing)")
    context = Context(r)
    position, key_at, item_at = r.alloca(), r.alloca("ptr"), r.alloca("ptr")
    row = r.row(context.pointer("argument_rows"), context.word("row"), ARGUMENT)
    context.add("row", 1)
    how, wanted, kind = r.word(row), r.pointer(row, 8), r.pointer("%thing", 8)

    def go_on(part: str) -> None:
        r.give_if(r.negated(r.call("i1", "@tree", "%context", part)), "false")

    with r.when(r.equal(how, OBJECT)):
        r.give(r.equal("%thing", wanted))
    r.give_if(r.unequal(kind, wanted), "false")
    with r.when(r.equal(how, TENSOR)):
        value = r.pointer("%thing", "$Handle_computed")
        r.give_if_null(value, "false")
        r.give_if(r.unequal(r.pointer(value, 8), known_object("Value")), "false")
        r.give_if(r.unequal(r.pointer(value, "$Value_spec"), r.pointer(row, 16)), "false")
        # A tensor that is passed twice, or known to the function otherwise, is left to Python.
        passed = context.pointer("passed")
        with r.loop(context.word("input")) as index:
            r.give_if(r.equal(r.pointer(passed, r.scaled(index)), "%thing"), "false")
        with context.rows("tensors", "tensor_rows", 1) as (_, reference):
            known = r.call("ptr", "@PyWeakref_GetObject", r.pointer(reference))
            r.give_if(r.equal(known, "%thing"), "false")
        r.go("input")
    r.go_if(r.equal(how, FLOAT), "input")
    with r.when(r.equal(how, THE_FLOAT)):
        r.give_if(r.unequal(r.word("%thing", "$float_content"), r.word(row, 16)), "false")
        r.go("input")
    count = r.word(row, 16)
    with r.when(r.equal(how, MAPPING)):
        r.give_if(r.unequal(r.call("i64", "@PyDict_Size", "%thing"), count), "false")
        r.put(position, 0, 0)
        with r.loop(count):
            r.call("i32", "@PyDict_Next", "%thing", position, key_at, item_at)
            for part in [r.load("ptr", place) for place in (key_at, item_at)]:
                go_on(part)
        r.give("true")
    r.give_if(r.unequal(r.word("%thing", "$list_size"), count), "false")
    inside, outside = r.at("%thing", "$tuple_items"), r.pointer("%thing", "$list_items")
    items = r.select(r.equal(how, ROW), inside, outside)
    with r.loop(count) as index:
        go_on(r.pointer(items, r.scaled(index)))
    r.give("true")
    r.block("input")
    r.put_pointer(context.pointer("passed"), r.scaled(context.word("input")), "%thing")
    context.add("input", 1)
    r.give("true")
    return r


def _matches() -> Routine:
    """Whether these arguments have the signature of a context, and it may be run now."""
    r = Routine("internal i1 @matches(ptr %context, ptr %args)")
    context = Context(r)
    for name, wanted in (("live", 1), ("busy", 0)):
        r.give_if(r.unequal(context.word(name), wanted), "false")
    # The next call is to be checked by running it in Python.
    r.give_if(r.compare("sle", context.word("until_check"), 0), "false")
    r.give_if(r.unequal(context.word("thread"), r.word("@thread")), "false")
    r.give_if(r.unequal(context.word("world"), r.word(known_object("world"))), "false")
    for cursor in ("row", "input"):
        context.put(cursor, 0)
    r.give(r.call("i1", "@tree", "%context", "%args"))
    return r


def _held() -> Routine:
    """The value of a handle, held; null if it is not computed."""
    r = Routine("internal ptr @held(ptr %handle)")
    r.give_if_null("%handle")
    value = r.pointer("%handle", "$Handle_computed")
    r.give_if_null(value)
    r.give_if(r.unequal(r.pointer(value, 8), known_object("Value")), "null")
    r.do("@Py_IncRef", value)
    r.give(value)
    return r


def _source() -> Routine:
    """The value of a row of sources, held; null if it is not computed or gone."""
    r = Routine("internal ptr @source(ptr %row, ptr %passed)")
    how = r.word("%row")
    with r.when(r.equal(how, PASSED)):
        passed = r.pointer("%passed", r.scaled(r.word("%row", 8)))
        r.give(r.call("ptr", "@held", passed))
    thing = r.pointer("%row", 8)
    with r.when(r.equal(how, VARIABLE)):
        r.give(r.call("ptr", "@held", r.pointer(thing, "$Variable__handle")))
    handle = r.call("ptr", "@PyWeakref_GetObject", thing)
    with r.when(r.unequal(handle, known_object("None"))):
        r.give(r.call("ptr", "@held", handle))
    r.give("null")
    return r


def _computed() -> Routine:
    """The number that a Python function computes from the inputs."""
    r = Routine("internal ptr @computed(ptr %context, ptr %function)")
    context = Context(r)
    passed, count = context.pointer("passed"), context.word("inputs")
    inputs = r.call("ptr", "@PyTuple_New", count)
    r.give_if_null(inputs)
    with r.loop(count) as index:
        item = r.pointer(passed, r.scaled(index))
        r.do("@Py_IncRef", item)
        r.call("i32", "@PyTuple_SetItem", inputs, index, item)
    found = r.call("ptr", "@PyObject_CallOneArg", "%function", inputs)
    r.do("@Py_DecRef", inputs)
    r.give(found)
    return r


def _fill() -> Routine:
    """Take values and buffers, and write their addresses and the numbers into the slots."""
    r = Routine("internal i1 @fill(ptr %context)")
    context = Context(r)
    passed, slots = context.pointer("passed"), context.pointer("slots")
    values, taken = context.pointer("values"), context.pointer("taken")
    with context.rows("sources", "source_rows", SOURCE) as (index, row):
        value = r.call("ptr", "@source", row, passed)
        r.give_if_null(value, "false")
        r.put_pointer(values, r.scaled(index), value)
    with context.rows("buffers", "buffer_rows", BUFFER) as (index, row):
        buffer = r.call("ptr", "@buffer", row)
        r.give_if_null(buffer, "false")
        r.put_pointer(taken, r.scaled(index), buffer)
        address = r.call("i64", "@PyLong_AsSsize_t", buffer)
        r.put(slots, r.scaled(r.word(row)), address)
    with context.rows("words", "word_rows", WORD) as (_, row):
        address = r.call("i64", "@address", r.pointer(values, r.scaled(r.word(row, 8))))
        r.give_if(r.equal(address, 0), "false")
        r.put(slots, r.scaled(r.word(row)), address)
    with context.rows("numbers", "number_rows", NUMBER) as (_, row):
        how, which, place = r.word(row), r.scaled(r.word(row, 8)), r.at(slots, r.word(row, 16))
        with r.when(r.equal(how, COPIED)):
            address = r.call("i64", "@address", r.pointer(values, which))
            r.give_if(r.equal(address, 0), "false")
            r.copy(place, r.cast("inttoptr", address, "ptr"), r.word(row, 24))
        for double, single in ((DOUBLE, SINGLE), (COMPUTED_DOUBLE, COMPUTED_SINGLE)):
            with r.when(r.either(r.equal(how, double), r.equal(how, single))):
                if double == DOUBLE:
                    found = r.pointer(passed, which)
                else:
                    found = r.call("ptr", "@computed", "%context", r.pointer(row, 8))
                    r.give_if_null(found, "false")
                is_float = r.equal(r.pointer(found, 8), known_object("float"))
                number = r.load("double", r.at(found, "$float_content"))
                if double != DOUBLE:
                    r.do("@Py_DecRef", found)
                    r.give_if(r.negated(is_float), "false")
                with r.when(r.equal(how, double)):
                    r.store(number, place)
                with r.when(r.equal(how, single)):
                    r.store(r.cast("fptrunc", number, "float"), place)
    r.give("true")
    return r


def _guards() -> Routine:
    """Whether all guards of a table hold, as far as they are compared by identity."""
    r = Routine("i64 @guards_hold(ptr %rows, i64 %count)")
    with r.loop("%count") as index:
        row = r.row("%rows", index, GUARD)
        how, where, wanted = r.word(row), r.pointer(row, 8), r.word(row, 24)
        with r.when(r.equal(how, THE_WORD)):
            r.give_if(r.unequal(r.word(where), wanted), 0)
        with r.when(r.equal(how, AN_ENTRY)):
            entry = r.call("ptr", "@PyDict_GetItemWithError", where, r.pointer(row, 16))
            r.give_if(r.unequal(r.cast("ptrtoint", entry, "i64"), wanted), 0)
        with r.when(r.equal(how, SOME_MEMORY)):
            order = r.call("i32", "@memcmp", where, r.pointer(row, 16), wanted)
            r.give_if(r.unequal(order, 0), 0)
    r.give(1)
    return r


def _drop() -> Routine:
    """Release the objects of an array, which is empty then."""
    r = Routine("internal void @drop(ptr %items, i64 %count)")
    with r.loop("%count") as index:
        place = r.at("%items", r.scaled(index))
        item = r.load("ptr", place)
        r.store("null", place)
        with r.when(r.unequal(item, "null")):
            r.do("@Py_DecRef", item)
    return r


def _run() -> Routine:
    """Run a call with the signature of a context."""
    r = Routine("internal ptr @run(ptr %context)")
    context = Context(r)
    found, error = r.alloca("ptr"), [r.alloca("ptr") for _ in range(3)]
    r.store(_LEFT_TO_PYTHON, found)
    owner = context.pointer("owner")
    r.do("@Py_IncRef", owner)
    context.put("busy", 1)
    passed = context.pointer("passed")
    with r.loop(context.word("inputs")) as index:
        r.do("@Py_IncRef", r.pointer(passed, r.scaled(index)))
    context.put("held", 0)
    _check(r, context)
    r.go_if(r.negated(r.call("i1", "@fill", "%context")), "unfilled")
    _run_plan(r, context)
    counts = known_object("run_counts")
    r.add_to(counts, 0, 1)
    r.add_to(counts, 8, context.word("ops"))
    context.add("calls", 1)
    context.add("until_check", -1)
    made = r.call("ptr", "@result", "%context")
    r.store(made, found)
    r.go_if_null(made, "over")
    r.go_if(r.call("i1", "@assign", "%context"), "over")
    r.do("@Py_DecRef", made)
    r.block("failed")
    r.store("null", found)
    r.go("over")
    r.block("unfilled")
    # Python will raise its own error where there is one. An interrupt is not forgotten.
    with r.when(r.unequal(r.call("ptr", "@PyErr_Occurred"), "null")):
        ordinary = r.call("i32", "@PyErr_ExceptionMatches", known_object("Exception"))
        r.go_if(r.equal(ordinary, 0), "failed")
        r.do("@PyErr_Clear")
    r.block("over")
    failed = r.equal(r.load("ptr", found), "null")
    with r.when(failed):
        # Releasing things may run Python code, which must not find an error set.
        r.do("@PyErr_Fetch", *error)
    owned = {"passed": "inputs", "values": "sources", "taken": "buffers", "handles": "updates"}
    for items, count in owned.items():
        r.do("@drop", context.pointer(items), context.word(count))
    with context.rows("held", "lock_rows", LOCK) as (_, row):
        result = r.call("ptr", "@PyObject_CallNoArgs", r.pointer(row, 8))
        with r.when(r.unequal(result, "null")):
            r.do("@Py_DecRef", result)
    context.put("busy", 0)
    r.do("@Py_DecRef", owner)
    with r.when(failed):
        r.do("@PyErr_Restore", *[r.load("ptr", part) for part in error])
    r.give(r.load("ptr", found))
    return r


def _called(r: Routine, function: str) -> str:
    """The result of a Python function, of which the address is all that is needed."""
    result = r.call("ptr", "@PyObject_CallNoArgs", function)
    r.go_if_null(result, "failed")
    r.do("@Py_DecRef", result)
    return result


def _check(r: Routine, context: Context) -> None:
    """Compare the guards and take the locks: goes to `over` if the call is left to Python."""
    guards = (context.pointer("guard_rows"), context.word("guards"))
    r.go_if(r.equal(r.call("i64", "@guards_hold", *guards), 0), "over")
    differs = context.pointer("differs")
    with r.when(r.unequal(differs, "null")):
        r.go_if(r.unequal(_called(r, differs), known_object("False")), "over")
    with context.rows("locks", "lock_rows", LOCK) as (_, row):
        _called(r, r.pointer(row))
        context.add("held", 1)
    # The thread that held a lock may have ended this native call.
    r.go_if(r.unequal(context.word("live"), 1), "over")


def _run_plan(r: Routine, context: Context) -> None:
    """Run the plan on the slots: goes to `over` if the call is left to Python after all."""
    slots, team = context.pointer("slots"), r.alloca()
    r.put(team, 0, 0)
    with r.when(r.unequal(context.word("parallel"), 0)):
        number = r.call("ptr", "@PyObject_CallNoArgs", known_object("team"))
        r.go_if_null(number, "failed")
        r.put(team, 0, r.call("i64", "@PyLong_AsSsize_t", number))
        r.do("@Py_DecRef", number)
    keeps = r.unequal(context.word("keep_gil"), 0)
    runner = r.select(keeps, known_object("plan_with_gil"), known_object("plan_without_gil"))
    plan = (context.pointer("instructions"), context.word("count"))
    stopped = r.call("i64", runner, r.pointer(team), *plan, slots)
    with r.when(r.unequal(stopped, 0)):
        r.put(r.pointer(slots, 8 * STATUS), 0, 0)
        # An interrupt, or Python code that the plan has called. Without an exception a kernel has
        # failed: Python runs the call again, and raises the error that NumPy has for it.
        r.go_if(r.unequal(r.call("ptr", "@PyErr_Occurred"), "null"), "failed")
        r.go("over")
    # A speculative plan is valid only if the flag at `decision` is set.
    decision = context.pointer("decision")
    with r.when(r.unequal(decision, "null")):
        r.go_if(r.equal(r.load("i8", r.pointer(decision)), 0), "over")


def _contexts() -> Routine:
    """The contexts of a function, as a bytes object of addresses; null if Python has to be called.

    That is so while a tape, a trace, a capture or a debug mode has to see every op, as
    `runs_in_python` has it. The function holds them in one tuple with the owners of the contexts,
    so that an exchange of the tuple exchanges both at once.
    """
    r = Routine("internal ptr @contexts(ptr %function)")
    recording = r.call("ptr", "@current")
    r.give_if_null(recording)
    r.give_if(r.unequal(r.pointer(recording, "$Recording_active"), known_object("zero")), "null")
    r.give_if(r.negated(is_a(r, r.pointer(recording, "$Recording_handles"), "list")), "null")
    state = (r.pointer("@local"), known_object("tapes_name"))
    tapes = r.call("ptr", "@PyDict_GetItemWithError", *state)
    r.give_if_null(tapes)
    r.give_if(r.unequal(r.word(tapes, "$list_size"), 0), "null")
    holder = r.pointer("%function", "$Function_native_contexts")
    r.give_if_null(holder)
    r.give_if(r.negated(is_a(r, holder, "tuple")), "null")
    r.give(r.pointer(holder, "$tuple_items"))
    return r


def _call() -> Routine:
    """The slot: the native call whose context matches the arguments, or the method in Python.

    Between reading the contexts and holding the owner of the one that matches no Python code runs,
    so that none of them can be freed. A run that leaves the call to Python may have run Python
    code, such as the comparison of guards: everything is read again for the next context.
    """
    r = Routine("ptr @call(ptr %function, ptr %args, ptr %named)")
    with r.when(r.unequal("%named", "null")):
        r.go_if(r.unequal(r.call("i64", "@PyDict_Size", "%named"), 0), "python")
    with r.loop("$most_contexts") as index:
        known = r.call("ptr", "@contexts", "%function")
        r.go_if_null(known, "python")
        place = r.scaled(index)
        r.go_if(r.compare("sge", place, r.word(known, "$list_size")), "python")
        context = r.pointer(r.at(known, "$bytes_content"), place)
        with r.when(r.call("i1", "@matches", context, "%args")):
            found = r.call("ptr", "@run", context)
            r.give_if(r.unequal(found, _LEFT_TO_PYTHON), found)
    r.block("python")
    # Reading the state of a thread may run Python code, such as a signal handler that raises.
    r.give_if(r.unequal(r.call("ptr", "@PyErr_Occurred"), "null"), "null")
    method = r.call("ptr", "@PyMethod_New", known_object("in_python"), "%function")
    r.give_if_null(method)
    found = r.call("ptr", "@PyObject_Call", method, "%args", "%named")
    r.do("@Py_DecRef", method)
    r.give(found)
    return r
