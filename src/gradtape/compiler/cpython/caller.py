"""Caller: the native call of a captured function that is one run of one plan, as IR.

It does what `Function.__call__` does for a call that was seen before: it asks whether somebody
wants to see the ops, recognises the signature by the classes and specs of the arguments, fills the
slots of the plan, runs it, and makes and assigns the results. All that it knows of a signature is
in a *context*, a row of words with tables (`call_context`). Whatever is unusual is left to the
method in Python, before anything has changed.

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
    AT,
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
    known_object,
)
from gradtape.compiler.cpython.call_results import (
    address_ir,
    assign_ir,
    buffer_ir,
    result_ir,
    tensor_ir,
    value_ir,
)
from gradtape.compiler.cpython.lookup import current_ir
from gradtape.compiler.cpython.python_api import declarations
from gradtape.compiler.emit.plans.instructions import STATUS
from gradtape.compiler.emit.writer import Routine

FUNCTIONS = (
    "PyDict_GetItemWithError",
    "PyDict_Next",
    "PyDict_Size",
    "PyErr_Clear",
    "PyErr_ExceptionMatches",
    "PyErr_Fetch",
    "PyErr_Occurred",
    "PyErr_Restore",
    "PyList_New",
    "PyList_SetItem",
    "PyLong_AsSsize_t",
    "PyMethod_New",
    "PyObject_Call",
    "PyObject_CallFunctionObjArgs",
    "PyObject_CallNoArgs",
    "PyObject_CallOneArg",
    "PyObject_GetAttr",
    "PyObject_Vectorcall",
    "PyThreadState_Get",
    "PyThreadState_GetID",
    "PyTuple_New",
    "PyTuple_SetItem",
    "PyType_GenericAlloc",
    "PyWeakref_GetObject",
    "Py_DecRef",
    "Py_IncRef",
)

_COPY = """declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i32 @memcmp(ptr, ptr, i64)
"""
# The answer of a run that leaves the call to Python; no object has this address.
_LEFT_TO_PYTHON = "inttoptr (i64 1 to ptr)"


def caller_ir(facts: Mapping[str, int]) -> str:
    """The module with `call`, the slot of calls. `facts` are offsets and addresses."""
    parts = [
        declarations(FUNCTIONS),
        _COPY,
        current_ir(),
        address_ir(),
        buffer_ir(),
        value_ir(),
        tensor_ir(),
        _tree(),
        _matches(),
        _source(),
        _computed(),
        _fill(),
        result_ir(),
        assign_ir(),
        _guards(),
        _run(),
        _contexts(),
        _call(),
    ]
    names = {name: str(number) for name, number in facts.items()}
    return Template("\n".join(parts)).substitute(names)


def _tree() -> str:
    """Whether an argument is as the rows from the cursor on describe it; notes its inputs."""
    r = Routine("internal i1 @tree(ptr %context, ptr %thing)")
    places = [r.let("alloca i64"), r.let("alloca ptr"), r.let("alloca ptr")]
    rows = r.pointer("%context", AT["argument_rows"])
    row = r.row(rows, r.word("%context", AT["row"]), ARGUMENT)
    r.add_to("%context", AT["row"], 1)
    how, wanted, kind = r.word(row), r.pointer(row, 8), r.pointer("%thing", 8)
    with r.when(r.equal(how, OBJECT)):
        r.end(f"ret i1 {r.same('%thing', wanted)}")
    r.go_if(r.differ(kind, wanted), "no")
    with r.when(r.equal(how, TENSOR)):
        value = r.pointer("%thing", "$Handle_computed")
        r.go_if(r.same(value, "null"), "no")
        r.go_if(r.differ(r.pointer(value, 8), known_object("Value")), "no")
        r.go_if(r.differ(r.pointer(value, "$Value_spec"), r.pointer(row, 16)), "no")
        # A tensor that is passed twice, or known to the function otherwise, is left to Python.
        passed = r.pointer("%context", AT["passed"])
        with r.loop(r.word("%context", AT["input"])) as index:
            r.go_if(r.same(r.pointer(passed, r.scaled(index)), "%thing"), "no")
        references = r.pointer("%context", AT["tensor_rows"])
        with r.loop(r.word("%context", AT["tensors"])) as index:
            reference = r.pointer(references, r.scaled(index))
            known = r.let(f"call ptr @PyWeakref_GetObject(ptr {reference})")
            r.go_if(r.same(known, "%thing"), "no")
        r.end("br label %input")
    r.go_if(r.equal(how, FLOAT), "input")
    with r.when(r.equal(how, THE_FLOAT)):
        r.go_if(r.unequal(r.word("%thing", "$float_content"), r.word(row, 16)), "no")
        r.go("input")
    count = r.word(row, 16)
    with r.when(r.equal(how, MAPPING)):
        size = r.let("call i64 @PyDict_Size(ptr %thing)")
        r.go_if(r.unequal(size, count), "no")
        r.line(f"store i64 0, ptr {places[0]}")
        listed = ", ".join(f"ptr {place}" for place in places)
        with r.loop(count):
            r.line(f"call i32 @PyDict_Next(ptr %thing, {listed})")
            key, item = (r.let(f"load ptr, ptr {place}") for place in places[1:])
            for part in (key, item):
                fits = r.let(f"call i1 @tree(ptr %context, ptr {part})")
                r.go_if(r.let(f"xor i1 {fits}, true"), "no")
        r.end("ret i1 true")
    r.go_if(r.unequal(r.word("%thing", "$list_size"), count), "no")
    is_tuple = r.equal(how, ROW)
    inside, outside = r.at("%thing", "$tuple_items"), r.pointer("%thing", "$list_items")
    items = r.let(f"select i1 {is_tuple}, ptr {inside}, ptr {outside}")
    with r.loop(count) as index:
        item = r.pointer(items, r.scaled(index))
        fits = r.let(f"call i1 @tree(ptr %context, ptr {item})")
        r.go_if(r.let(f"xor i1 {fits}, true"), "no")
    r.end("ret i1 true")
    r.block("input")
    number = r.word("%context", AT["input"])
    r.put_pointer(r.pointer("%context", AT["passed"]), r.scaled(number), "%thing")
    r.add_to("%context", AT["input"], 1)
    r.end("ret i1 true")
    r.block("no")
    r.end("ret i1 false")
    return r.text()


def _matches() -> str:
    """Whether these arguments have the signature of a context, and it may be run now."""
    r = Routine("internal i1 @matches(ptr %context, ptr %args)")
    for name, wanted in (("live", 1), ("busy", 0)):
        r.go_if(r.unequal(r.word("%context", AT[name]), wanted), "no")
    # The next call is to be checked by running it in Python.
    r.go_if(r.compare("sle", r.word("%context", AT["until_check"]), 0), "no")
    r.go_if(r.unequal(r.word("%context", AT["thread"]), r.word("@thread")), "no")
    r.go_if(r.unequal(r.word("%context", AT["world"]), r.word(known_object("world"))), "no")
    for cursor in ("row", "input"):
        r.put("%context", AT[cursor], 0)
    r.end(f"ret i1 {r.let('call i1 @tree(ptr %context, ptr %args)')}")
    r.block("no")
    r.end("ret i1 false")
    return r.text()


def _source() -> str:
    """The value of a row of sources, held; null if it is not computed or gone."""
    r = Routine("internal ptr @source(ptr %row, ptr %passed)")
    how = r.word("%row")
    with r.when(r.equal(how, PASSED)):
        passed = r.pointer("%passed", r.scaled(r.word("%row", 8)))
        r.end(f"ret ptr {r.let(f'call ptr @held(ptr {passed})')}")
    thing = r.pointer("%row", 8)
    with r.when(r.equal(how, VARIABLE)):
        handle = r.pointer(thing, "$Variable__handle")
        r.end(f"ret ptr {r.let(f'call ptr @held(ptr {handle})')}")
    handle = r.let(f"call ptr @PyWeakref_GetObject(ptr {thing})")
    with r.when(r.differ(handle, known_object("None"))):
        r.end(f"ret ptr {r.let(f'call ptr @held(ptr {handle})')}")
    r.end("ret ptr null")
    held = Routine("internal ptr @held(ptr %handle)")
    held.go_if(held.same("%handle", "null"), "no")
    value = held.pointer("%handle", "$Handle_computed")
    held.go_if(held.same(value, "null"), "no")
    held.go_if(held.differ(held.pointer(value, 8), known_object("Value")), "no")
    held.line(f"call void @Py_IncRef(ptr {value})")
    held.end(f"ret ptr {value}")
    held.block("no")
    held.end("ret ptr null")
    return held.text() + r.text()


def _computed() -> str:
    """The number that a Python function computes from the inputs."""
    r = Routine("internal ptr @computed(ptr %context, ptr %function)")
    passed, count = r.pointer("%context", AT["passed"]), r.word("%context", AT["inputs"])
    inputs = r.let(f"call ptr @PyTuple_New(i64 {count})")
    with r.when(r.same(inputs, "null")):
        r.end("ret ptr null")
    with r.loop(count) as index:
        item = r.pointer(passed, r.scaled(index))
        r.line(f"call void @Py_IncRef(ptr {item})")
        r.line(f"call i32 @PyTuple_SetItem(ptr {inputs}, i64 {index}, ptr {item})")
    found = r.let(f"call ptr @PyObject_CallOneArg(ptr %function, ptr {inputs})")
    r.line(f"call void @Py_DecRef(ptr {inputs})")
    r.end(f"ret ptr {found}")
    return r.text()


def _fill() -> str:
    """Take values and buffers, and write their addresses and the numbers into the slots."""
    r = Routine("internal i1 @fill(ptr %context)")
    passed = r.pointer("%context", AT["passed"])
    slots, values = r.pointer("%context", AT["slots"]), r.pointer("%context", AT["values"])
    rows = r.pointer("%context", AT["source_rows"])
    with r.loop(r.word("%context", AT["sources"])) as index:
        row = r.row(rows, index, SOURCE)
        value = r.let(f"call ptr @source(ptr {row}, ptr {passed})")
        r.go_if(r.same(value, "null"), "no")
        r.put_pointer(values, r.scaled(index), value)
    rows, taken = r.pointer("%context", AT["buffer_rows"]), r.pointer("%context", AT["taken"])
    with r.loop(r.word("%context", AT["buffers"])) as index:
        row = r.row(rows, index, BUFFER)
        buffer = r.let(f"call ptr @buffer(ptr {row})")
        r.go_if(r.same(buffer, "null"), "no")
        r.put_pointer(taken, r.scaled(index), buffer)
        address = r.let(f"call i64 @PyLong_AsSsize_t(ptr {buffer})")
        r.put(slots, r.scaled(r.word(row)), address)
    rows = r.pointer("%context", AT["word_rows"])
    with r.loop(r.word("%context", AT["words"])) as index:
        row = r.row(rows, index, WORD)
        value = r.pointer(values, r.scaled(r.word(row, 8)))
        address = r.let(f"call i64 @address(ptr {value})")
        r.go_if(r.equal(address, 0), "no")
        r.put(slots, r.scaled(r.word(row)), address)
    rows = r.pointer("%context", AT["number_rows"])
    with r.loop(r.word("%context", AT["numbers"])) as index:
        row = r.row(rows, index, NUMBER)
        how, which, place = r.word(row), r.scaled(r.word(row, 8)), r.at(slots, r.word(row, 16))
        with r.when(r.equal(how, COPIED)):
            address = r.let(f"call i64 @address(ptr {r.pointer(values, which)})")
            r.go_if(r.equal(address, 0), "no")
            memory, size = r.let(f"inttoptr i64 {address} to ptr"), r.word(row, 24)
            r.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {place}, ptr {memory}, i64 {size}, i1 0)")
        for double, single in ((DOUBLE, SINGLE), (COMPUTED_DOUBLE, COMPUTED_SINGLE)):
            either = r.let(f"or i1 {r.equal(how, double)}, {r.equal(how, single)}")
            with r.when(either):
                if double == DOUBLE:
                    found = r.pointer(passed, which)
                else:
                    compute = r.pointer(row, 8)
                    found = r.let(f"call ptr @computed(ptr %context, ptr {compute})")
                    r.go_if(r.same(found, "null"), "no")
                is_float = r.same(r.pointer(found, 8), known_object("float"))
                number = r.let(f"load double, ptr {r.at(found, '$float_content')}")
                if double != DOUBLE:
                    r.line(f"call void @Py_DecRef(ptr {found})")
                    r.go_if(r.let(f"xor i1 {is_float}, true"), "no")
                with r.when(r.equal(how, double)):
                    r.line(f"store double {number}, ptr {place}")
                with r.when(r.equal(how, single)):
                    rounded = r.let(f"fptrunc double {number} to float")
                    r.line(f"store float {rounded}, ptr {place}")
    r.end("ret i1 true")
    r.block("no")
    r.end("ret i1 false")
    return r.text()


def _guards() -> str:
    """Whether all guards of a table hold, as far as they are compared by identity."""
    r = Routine("i64 @guards_hold(ptr %rows, i64 %count)")
    with r.loop("%count") as index:
        row = r.row("%rows", index, GUARD)
        how, where, wanted = r.word(row), r.pointer(row, 8), r.word(row, 24)
        with r.when(r.equal(how, THE_WORD)):
            r.go_if(r.unequal(r.word(where), wanted), "no")
        with r.when(r.equal(how, AN_ENTRY)):
            key = r.pointer(row, 16)
            entry = r.let(f"call ptr @PyDict_GetItemWithError(ptr {where}, ptr {key})")
            r.go_if(r.unequal(r.let(f"ptrtoint ptr {entry} to i64"), wanted), "no")
        with r.when(r.equal(how, SOME_MEMORY)):
            other = r.pointer(row, 16)
            order = r.let(f"call i32 @memcmp(ptr {where}, ptr {other}, i64 {wanted})")
            r.go_if(r.let(f"icmp ne i32 {order}, 0"), "no")
    r.end("ret i64 1")
    r.block("no")
    r.end("ret i64 0")
    return r.text()


def _run() -> str:
    """Run a call with the signature of a context."""
    drop = Routine("internal void @drop(ptr %items, i64 %count)")
    with drop.loop("%count") as index:
        place = drop.at("%items", drop.scaled(index))
        item = drop.let(f"load ptr, ptr {place}")
        drop.line(f"store ptr null, ptr {place}")
        with drop.when(drop.differ(item, "null")):
            drop.line(f"call void @Py_DecRef(ptr {item})")
    drop.end("ret void")
    r = Routine("internal ptr @run(ptr %context)")
    r.line("%found = alloca ptr")
    team, error = r.let("alloca i64"), [r.let("alloca ptr") for _ in range(3)]
    r.line(f"store ptr {_LEFT_TO_PYTHON}, ptr %found")
    owner = r.pointer("%context", AT["owner"])
    r.line(f"call void @Py_IncRef(ptr {owner})")
    r.put("%context", AT["busy"], 1)
    passed = r.pointer("%context", AT["passed"])
    with r.loop(r.word("%context", AT["inputs"])) as index:
        r.line(f"call void @Py_IncRef(ptr {r.pointer(passed, r.scaled(index))})")
    r.put("%context", AT["held"], 0)
    locks, lock_rows = r.word("%context", AT["locks"]), r.pointer("%context", AT["lock_rows"])
    guards = f"ptr {r.pointer('%context', AT['guard_rows'])}"
    holds = r.let(f"call i64 @guards_hold({guards}, i64 {r.word('%context', AT['guards'])})")
    r.go_if(r.equal(holds, 0), "over")
    differs = r.pointer("%context", AT["differs"])
    with r.when(r.differ(differs, "null")):
        answer = r.let(f"call ptr @PyObject_CallNoArgs(ptr {differs})")
        r.go_if(r.same(answer, "null"), "failed")
        r.line(f"call void @Py_DecRef(ptr {answer})")
        r.go_if(r.differ(answer, known_object("False")), "over")
    with r.loop(locks) as index:
        acquire = r.pointer(r.row(lock_rows, index, LOCK))
        answer = r.let(f"call ptr @PyObject_CallNoArgs(ptr {acquire})")
        r.go_if(r.same(answer, "null"), "failed")
        r.line(f"call void @Py_DecRef(ptr {answer})")
        r.add_to("%context", AT["held"], 1)
    # The thread that held a lock may have ended this native call.
    r.go_if(r.unequal(r.word("%context", AT["live"]), 1), "over")
    filled = r.let("call i1 @fill(ptr %context)")
    r.go_if(r.let(f"xor i1 {filled}, true"), "unfilled")
    slots = r.pointer("%context", AT["slots"])
    r.line(f"store i64 0, ptr {team}")
    with r.when(r.unequal(r.word("%context", AT["parallel"]), 0)):
        number = r.let(f"call ptr @PyObject_CallNoArgs(ptr {known_object('team')})")
        r.go_if(r.same(number, "null"), "failed")
        r.line(f"store i64 {r.let(f'call i64 @PyLong_AsSsize_t(ptr {number})')}, ptr {team}")
        r.line(f"call void @Py_DecRef(ptr {number})")
    word = r.let(f"inttoptr i64 {r.let(f'load i64, ptr {team}')} to ptr")
    instructions, count = (
        r.pointer("%context", AT["instructions"]),
        r.word("%context", AT["count"]),
    )
    arguments = f"ptr {word}, ptr {instructions}, i64 {count}, ptr {slots}"
    keeps = r.unequal(r.word("%context", AT["keep_gil"]), 0)
    runners = (known_object("plan_with_gil"), known_object("plan_without_gil"))
    stopped = r.let(f"call i64 {r.select(keeps, *runners, kind='ptr')}({arguments})")
    with r.when(r.unequal(stopped, 0)):
        r.put(r.pointer(slots, 8 * STATUS), 0, 0)
        # An interrupt, or Python code that the plan has called. Without an exception a kernel has
        # failed: Python runs the call again, and raises the error that NumPy has for it.
        r.go_if(r.differ(r.let("call ptr @PyErr_Occurred()"), "null"), "failed")
        r.go("over")
    # Where a plan computes in vain if a value is another one than it was.
    decision = r.pointer("%context", AT["decision"])
    with r.when(r.differ(decision, "null")):
        holds = r.let(f"load i8, ptr {r.pointer(decision)}")
        r.go_if(r.let(f"icmp eq i8 {holds}, 0"), "over")
    counts = known_object("run_counts")
    r.add_to(counts, 0, 1)
    r.add_to(counts, 8, r.word("%context", AT["ops"]))
    r.add_to("%context", AT["calls"], 1)
    r.add_to("%context", AT["until_check"], -1)
    made = r.let("call ptr @result(ptr %context)")
    r.line(f"store ptr {made}, ptr %found")
    r.go_if(r.same(made, "null"), "over")
    assigned = r.let("call i1 @assign(ptr %context)")
    r.go_if(assigned, "over")
    r.line(f"call void @Py_DecRef(ptr {made})")
    r.block("failed")
    r.line("store ptr null, ptr %found")
    r.end("br label %over")
    r.block("unfilled")
    # Python will raise its own error where there is one. An interrupt is not forgotten.
    with r.when(r.differ(r.let("call ptr @PyErr_Occurred()"), "null")):
        ordinary = f"call i32 @PyErr_ExceptionMatches(ptr {known_object('Exception')})"
        r.go_if(r.let(f"icmp eq i32 {r.let(ordinary)}, 0"), "failed")
        r.line("call void @PyErr_Clear()")
    r.block("over")
    failed = r.same(r.let("load ptr, ptr %found"), "null")
    with r.when(failed):
        # Releasing things may run Python code, which must not find an error set.
        r.line(f"call void @PyErr_Fetch({', '.join(f'ptr {part}' for part in error)})")
    owned = {"passed": "inputs", "values": "sources", "taken": "buffers", "handles": "updates"}
    for items_word, count_word in owned.items():
        items, count = r.pointer("%context", AT[items_word]), r.word("%context", AT[count_word])
        r.line(f"call void @drop(ptr {items}, i64 {count})")
    with r.loop(r.word("%context", AT["held"])) as index:
        release = r.pointer(r.row(lock_rows, index, LOCK), 8)
        answer = r.let(f"call ptr @PyObject_CallNoArgs(ptr {release})")
        with r.when(r.differ(answer, "null")):
            r.line(f"call void @Py_DecRef(ptr {answer})")
    r.put("%context", AT["busy"], 0)
    r.line(f"call void @Py_DecRef(ptr {owner})")
    with r.when(failed):
        parts = [r.let(f"load ptr, ptr {part}") for part in error]
        r.line(f"call void @PyErr_Restore({', '.join(f'ptr {part}' for part in parts)})")
    r.end(f"ret ptr {r.let('load ptr, ptr %found')}")
    return drop.text() + r.text()


def _contexts() -> str:
    """The contexts of a function, as a bytes object of addresses; null if Python has to be called.

    That is so while a tape, a trace, a capture or a debug mode wants to see every op, as
    `runs_in_python` has it. The function holds them in one tuple with the owners of the contexts,
    so that whoever exchanges the tuple exchanges both at once.
    """
    r = Routine("internal ptr @contexts(ptr %function)")
    recording = r.let("call ptr @current()")
    r.go_if(r.same(recording, "null"), "python")
    r.go_if(r.differ(r.pointer(recording, "$Recording_active"), known_object("zero")), "python")
    handles = r.pointer(recording, "$Recording_handles")
    r.go_if(r.differ(r.pointer(handles, 8), known_object("list")), "python")
    local = r.pointer("@local")
    tapes = r.let(
        f"call ptr @PyDict_GetItemWithError(ptr {local}, ptr {known_object('tapes_name')})"
    )
    r.go_if(r.same(tapes, "null"), "python")
    r.go_if(r.unequal(r.word(tapes, "$list_size"), 0), "python")
    holder = r.pointer("%function", "$Function_native_contexts")
    r.go_if(r.same(holder, "null"), "python")
    r.go_if(r.differ(r.pointer(holder, 8), known_object("tuple")), "python")
    r.end(f"ret ptr {r.pointer(holder, '$tuple_items')}")
    r.block("python")
    r.end("ret ptr null")
    return r.text()


def _call() -> str:
    """The slot: the native call whose context matches the arguments, or the method in Python.

    Between reading the contexts and holding the owner of the one that matches no Python code runs,
    so that none of them can be freed. A run that leaves the call to Python may have run Python
    code, such as the comparison of guards: everything is read again for the next context.
    """
    r = Routine("ptr @call(ptr %function, ptr %args, ptr %named)")
    with r.when(r.differ("%named", "null")):
        size = r.let("call i64 @PyDict_Size(ptr %named)")
        r.go_if(r.unequal(size, 0), "python")
    with r.loop("$most_contexts") as index:
        known = r.let("call ptr @contexts(ptr %function)")
        r.go_if(r.same(known, "null"), "python")
        place = r.scaled(index)
        r.go_if(r.compare("sge", place, r.word(known, "$list_size")), "python")
        context = r.pointer(r.at(known, "$bytes_content"), place)
        with r.when(r.let(f"call i1 @matches(ptr {context}, ptr %args)")):
            found = r.let(f"call ptr @run(ptr {context})")
            with r.when(r.differ(found, _LEFT_TO_PYTHON)):
                r.end(f"ret ptr {found}")
    r.block("python")
    # Reading the state of a thread may run Python code, such as a signal handler that raises.
    with r.when(r.differ(r.let("call ptr @PyErr_Occurred()"), "null")):
        r.end("ret ptr null")
    method = r.let(f"call ptr @PyMethod_New(ptr {known_object('in_python')}, ptr %function)")
    with r.when(r.same(method, "null")):
        r.end("ret ptr null")
    answer = r.let(f"call ptr @PyObject_Call(ptr {method}, ptr %args, ptr %named)")
    r.line(f"call void @Py_DecRef(ptr {method})")
    r.end(f"ret ptr {answer}")
    return r.text()
