"""Lookup: what the native recorder asks of a recording, its table and its handles, as IR.

A known application is found in a cache of the thread's table, a `bytes` object of two-way sets, by
op, first node and a third word: the other node, the params, or for a Python scalar its number
among the leaves and its kind. The cache only repeats what the table's dictionary says, and the
dictionary, from which nothing is ever removed, keeps alive what the cache points to.

Nothing here clears an error: it may be an interrupt. Whoever goes on to Python looks first.

Names with a dollar are offsets and addresses; `%name = at(ptr %object, i64 offset)` stands for the
pointer at an offset of an object.
"""

from __future__ import annotations

import re

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

# `%name = at(ptr %object, i64 offset)`.
_AT = re.compile(r"%(\S+) = at\((.*?), i64 (\S+)\)")


def with_loads(text: str) -> str:
    """The text with every `at` written out."""
    return _AT.sub(_load, text)


def _load(found: re.Match[str]) -> str:
    name, where, offset = found.groups()
    address = f"getelementptr i8, {where}, i64 {offset}"
    return f"%{name}.address = {address}\n  %{name} = load ptr, ptr %{name}.address"


# The recording of the running thread: its `state.__dict__` is remembered for the thread that
# recorded last.
CURRENT = """
@thread = internal global i64 -1
@local = internal global ptr null

define internal ptr @current() {
entry:
  %thread.state = call ptr @PyThreadState_Get()
  %number = call i64 @PyThreadState_GetID(ptr %thread.state)
  %before = load i64, ptr @thread
  %same = icmp eq i64 %number, %before
  br i1 %same, label %known, label %other
other:
  %fresh = call ptr @PyObject_CallNoArgs(ptr inttoptr (i64 $local_dictionary to ptr))
  %failed = icmp eq ptr %fresh, null
  br i1 %failed, label %nowhere, label %exchange
nowhere:
  ret ptr null
exchange:
  %old = load ptr, ptr @local
  store ptr %fresh, ptr @local
  store i64 %number, ptr @thread
  %first = icmp eq ptr %old, null
  br i1 %first, label %known, label %release
release:
  call void @Py_DecRef(ptr %old)
  ; What died with it may have recorded in another thread: the state is read anew.
  %again = tail call ptr @current()
  ret ptr %again
known:
  %dictionary = load ptr, ptr @local
  %found = call ptr @PyDict_GetItemWithError(ptr %dictionary,
                                             ptr inttoptr (i64 $recording_name to ptr))
  %missing = icmp eq ptr %found, null
  br i1 %missing, label %nowhere, label %check
check:
  %kind = at(ptr %found, i64 8)
  %right = icmp eq ptr %kind, inttoptr (i64 $Recording to ptr)
  %result = select i1 %right, ptr %found, ptr null
  ret ptr %result
}
"""

# What every path uses. `result_kind` is the class of what an op on this class gives, null if only
# the closure knows; `node_of` the node that the recording knows.
LOOKUP = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal ptr @result_kind(ptr %kind) {
entry:
  br label %look
look:
  %entry.at = phi ptr [ inttoptr (i64 $kinds to ptr), %entry ], [ %next, %more ]
  %known = load ptr, ptr %entry.at
  %same = icmp eq ptr %known, %kind
  br i1 %same, label %found, label %end
end:
  %last = icmp eq ptr %known, null
  br i1 %last, label %unknown, label %more
more:
  %next = getelementptr i8, ptr %entry.at, i64 16
  br label %look
found:
  %result = at(ptr %entry.at, i64 8)
  ret ptr %result
unknown:
  ret ptr null
}

; A class that is not in the list of kinds may be that of a tensor: then it is entered there.
define internal void @meet(ptr %x) {
entry:
  %kind = at(ptr %x, i64 8)
  %is = call i32 @PyType_IsSubtype(ptr %kind, ptr inttoptr (i64 $Tensor to ptr))
  %handle = icmp ne i32 %is, 0
  br i1 %handle, label %learn, label %done
learn:
  %answer = call ptr @PyObject_CallOneArg(ptr inttoptr (i64 $learn_kind to ptr), ptr %kind)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %done, label %drop
drop:
  call void @Py_DecRef(ptr %answer)
  ret void
done:
  ret void
}

define internal ptr @node_of(ptr %x, ptr %recording, ptr %stamp) {
entry:
  %own = at(ptr %x, i64 $Handle_recording)
  %here = icmp eq ptr %own, %recording
  br i1 %here, label %pending, label %look
pending:
  %node = at(ptr %x, i64 $Handle_node)
  br label %check
look:
  %computed = at(ptr %x, i64 $Handle_computed)
  %unset = icmp eq ptr %computed, null
  br i1 %unset, label %unknown, label %value
value:
  %kind = at(ptr %computed, i64 8)
  %is = icmp eq ptr %kind, inttoptr (i64 $Value to ptr)
  br i1 %is, label %entered, label %unknown
entered:
  %pair = at(ptr %computed, i64 $Value_entry)
  %pair.stamp = at(ptr %pair, i64 $tuple_items)
  %now = icmp eq ptr %pair.stamp, %stamp
  br i1 %now, label %leaf, label %unknown
leaf:
  %second = add i64 $tuple_items, 8
  %pair.node = at(ptr %pair, i64 %second)
  br label %check
check:
  %found = phi ptr [ %node, %pending ], [ %pair.node, %leaf ]
  %null = icmp eq ptr %found, null
  br i1 %null, label %unknown, label %type
type:
  %found.kind = at(ptr %found, i64 8)
  %right = icmp eq ptr %found.kind, inttoptr (i64 $Node to ptr)
  %result = select i1 %right, ptr %found, ptr null
  ret ptr %result
unknown:
  ret ptr null
}

; Whether a spec is of a floating-point or complex dtype.
define internal i1 @inexact(ptr %spec) {
entry:
  %kind = at(ptr %spec, i64 8)
  %single = icmp eq ptr %kind, inttoptr (i64 $Spec to ptr)
  br i1 %single, label %ask, label %no
ask:
  %answer = at(ptr %spec, i64 $Spec_inexact)
  %yes = icmp eq ptr %answer, inttoptr (i64 $True to ptr)
  ret i1 %yes
no:
  ret i1 false
}

; The memory of a table's cache, made when it is first asked for.
define internal ptr @cache_of(ptr %table) {
entry:
  %cache.at = getelementptr i8, ptr %table, i64 $Table_cache
  %cache = load ptr, ptr %cache.at
  %kind = at(ptr %cache, i64 8)
  %there = icmp eq ptr %kind, inttoptr (i64 $bytes to ptr)
  br i1 %there, label %ready, label %make
make:
  %fresh = call ptr @PyBytes_FromStringAndSize(ptr null, i64 $cache_bytes)
  %failed = icmp eq ptr %fresh, null
  br i1 %failed, label %no, label %fill
no:
  ret ptr null
fill:
  %fresh.content = getelementptr i8, ptr %fresh, i64 $bytes_content
  call void @llvm.memset.p0.i64(ptr %fresh.content, i8 0, i64 $cache_bytes, i1 false)
  store ptr %fresh, ptr %cache.at
  call void @Py_DecRef(ptr %cache)
  ret ptr %fresh.content
ready:
  %content = getelementptr i8, ptr %cache, i64 $bytes_content
  ret ptr %content
}

define internal ptr @set_of(ptr %cache, ptr %op, ptr %first, i64 %third) {
  %op.word = ptrtoint ptr %op to i64
  %first.word = ptrtoint ptr %first to i64
  %op.mixed = mul i64 %op.word, -7046029254386353131
  %third.mixed = mul i64 %third, -4658895280553007687
  %two = add i64 %op.mixed, %third.mixed
  %three = xor i64 %two, %first.word
  %all = mul i64 %three, -7046029254386353131
  %number = lshr i64 %all, $set_shift
  %offset = shl i64 %number, 6
  %found = getelementptr i8, ptr %cache, i64 %offset
  ret ptr %found
}

define internal ptr @known(ptr %cache, ptr %op, ptr %first, i64 %third) {
entry:
  %set = call ptr @set_of(ptr %cache, ptr %op, ptr %first, i64 %third)
  br label %look
look:
  %way = phi ptr [ %set, %entry ], [ %other, %next ]
  %way.op = at(ptr %way, i64 0)
  %way.first = at(ptr %way, i64 8)
  %third.at = getelementptr i8, ptr %way, i64 16
  %way.third = load i64, ptr %third.at
  %same.op = icmp eq ptr %way.op, %op
  %same.first = icmp eq ptr %way.first, %first
  %same.third = icmp eq i64 %way.third, %third
  %same.two = and i1 %same.op, %same.first
  %same = and i1 %same.two, %same.third
  br i1 %same, label %hit, label %next
next:
  %other = getelementptr i8, ptr %set, i64 32
  %last = icmp eq ptr %way, %other
  br i1 %last, label %miss, label %look
hit:
  %node = at(ptr %way, i64 24)
  ret ptr %node
miss:
  ret ptr null
}

; Ask the dictionary for (op, one, two), or (op, one) where two is null, and remember the answer.
define internal i1 @learn(ptr %table, ptr %op, ptr %first, i64 %third, ptr %one, ptr %two) {
entry:
  %dictionary = at(ptr %table, i64 $Table_nodes)
  %short = icmp eq ptr %two, null
  br i1 %short, label %pair, label %triple
pair:
  %key.pair = call ptr (i64, ...) @PyTuple_Pack(i64 2, ptr %op, ptr %one)
  br label %ask
triple:
  %key.triple = call ptr (i64, ...) @PyTuple_Pack(i64 3, ptr %op, ptr %one, ptr %two)
  br label %ask
ask:
  %key = phi ptr [ %key.pair, %pair ], [ %key.triple, %triple ]
  %failed = icmp eq ptr %key, null
  br i1 %failed, label %no, label %get
get:
  %node = call ptr @PyDict_GetItemWithError(ptr %dictionary, ptr %key)
  call void @Py_DecRef(ptr %key)
  %missing = icmp eq ptr %node, null
  br i1 %missing, label %no, label %write
no:
  ret i1 false
write:
  %cache = call ptr @cache_of(ptr %table)
  %none = icmp eq ptr %cache, null
  br i1 %none, label %no, label %enter
enter:
  %set = call ptr @set_of(ptr %cache, ptr %op, ptr %first, i64 %third)
  %old = load <4 x i64>, ptr %set, align 1
  %other = getelementptr i8, ptr %set, i64 32
  store <4 x i64> %old, ptr %other, align 1
  store ptr %op, ptr %set
  %first.at = getelementptr i8, ptr %set, i64 8
  store ptr %first, ptr %first.at
  %third.at = getelementptr i8, ptr %set, i64 16
  store i64 %third, ptr %third.at
  %node.at = getelementptr i8, ptr %set, i64 24
  store ptr %node, ptr %node.at
  ret i1 true
}

; The leaf of a scalar of this kind beside a value of this spec, if the table has it.
define internal ptr @leaf_of(ptr %table, ptr %spec, ptr %kind, i64 %ordinal) {
entry:
  %scalars = at(ptr %spec, i64 $Spec_scalars)
  %of = call ptr @PyDict_GetItemWithError(ptr %scalars, ptr %kind)
  %unseen = icmp eq ptr %of, null
  br i1 %unseen, label %no, label %number
number:
  %position = call ptr @PyLong_FromSsize_t(i64 %ordinal)
  %failed = icmp eq ptr %position, null
  br i1 %failed, label %no, label %pack
pack:
  %key = call ptr (i64, ...) @PyTuple_Pack(i64 2, ptr %of, ptr %position)
  call void @Py_DecRef(ptr %position)
  %unpacked = icmp eq ptr %key, null
  br i1 %unpacked, label %no, label %get
get:
  %dictionary = at(ptr %table, i64 $Table_nodes)
  %leaf = call ptr @PyDict_GetItemWithError(ptr %dictionary, ptr %key)
  call void @Py_DecRef(ptr %key)
  %missing = icmp eq ptr %leaf, null
  br i1 %missing, label %no, label %done
no:
  ret ptr null
done:
  ret ptr %leaf
}

; Enter an application and give the handle, which is taken over, its content. A null says that the
; closure has to be asked after all; the handle is gone then. Only memory can fail from here on.
define internal ptr @commit(ptr %recording, ptr %stamp, ptr %node, ptr %handle, ptr %scalar) {
entry:
  %stamp.at = getelementptr i8, ptr %node, i64 $Node_stamp
  %old = load ptr, ptr %stamp.at
  ; Only a smaller stamp says that the recording has not applied the node: `has_applied`.
  %last = call i64 @PyLong_AsSsize_t(ptr %old)
  %own = call i64 @PyLong_AsSsize_t(ptr %stamp)
  %fresh = icmp slt i64 %last, %own
  br i1 %fresh, label %lists, label %refuse
lists:
  %handles = at(ptr %recording, i64 $Recording_handles)
  %handles.kind = at(ptr %handles, i64 8)
  %plain = icmp eq ptr %handles.kind, inttoptr (i64 $list to ptr)
  br i1 %plain, label %begin, label %refuse
begin:
  %has.scalar = icmp ne ptr %scalar, null
  br i1 %has.scalar, label %leaf, label %stamp.it
leaf:
  %leaves = at(ptr %recording, i64 $Recording_leaves)
  %leaf.failed = call i32 @PyList_Append(ptr %leaves, ptr %scalar)
  %leaf.bad = icmp ne i32 %leaf.failed, 0
  br i1 %leaf.bad, label %refuse, label %stamp.it
stamp.it:
  %nodes = at(ptr %recording, i64 $Recording_nodes)
  %node.failed = call i32 @PyList_Append(ptr %nodes, ptr %node)
  %node.bad = icmp ne i32 %node.failed, 0
  br i1 %node.bad, label %refuse, label %fill
fill:
  call void @Py_IncRef(ptr %stamp)
  store ptr %stamp, ptr %stamp.at
  call void @Py_DecRef(ptr %old)
  call void @Py_IncRef(ptr %node)
  %node.at = getelementptr i8, ptr %handle, i64 $Handle_node
  store ptr %node, ptr %node.at
  call void @Py_IncRef(ptr %recording)
  %recording.at = getelementptr i8, ptr %handle, i64 $Handle_recording
  store ptr %recording, ptr %recording.at
  call void @Py_IncRef(ptr inttoptr (i64 $None to ptr))
  %computed.at = getelementptr i8, ptr %handle, i64 $Handle_computed
  store ptr inttoptr (i64 $None to ptr), ptr %computed.at
  %handle.failed = call i32 @PyList_Append(ptr %handles, ptr %handle)
  %handle.bad = icmp ne i32 %handle.failed, 0
  br i1 %handle.bad, label %refuse, label %done
refuse:
  call void @Py_DecRef(ptr %handle)
  ret ptr null
done:
  ret ptr %handle
}
"""
