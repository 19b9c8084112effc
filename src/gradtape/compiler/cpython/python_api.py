"""Python's C API as IR: what native code calls by name, exported by every CPython from 3.11 on."""

from __future__ import annotations

from collections.abc import Iterable

# Result and arguments of each function.
TYPES = {
    "PyBytes_FromStringAndSize": "ptr (ptr, i64)",
    "PyDict_GetItemWithError": "ptr (ptr, ptr)",
    "PyDict_Next": "i32 (ptr, ptr, ptr, ptr)",
    "PyDict_Size": "i64 (ptr)",
    "PyErr_CheckSignals": "i32 ()",
    "PyErr_Clear": "void ()",
    "PyErr_ExceptionMatches": "i32 (ptr)",
    "PyErr_Fetch": "void (ptr, ptr, ptr)",
    "PyErr_Occurred": "ptr ()",
    "PyErr_Restore": "void (ptr, ptr, ptr)",
    "PyEval_RestoreThread": "void (ptr)",
    "PyEval_SaveThread": "ptr ()",
    "PyEval_SetProfile": "void (ptr, ptr)",
    "PyFrame_GetCode": "ptr (ptr)",
    "PyGILState_Ensure": "i32 ()",
    "PyGILState_Release": "void (i32)",
    "PyList_Append": "i32 (ptr, ptr)",
    "PyList_New": "ptr (i64)",
    "PyList_SetItem": "i32 (ptr, i64, ptr)",
    "PyLong_AsLongAndOverflow": "i64 (ptr, ptr)",
    "PyLong_AsSsize_t": "i64 (ptr)",
    "PyLong_FromSsize_t": "ptr (i64)",
    "PyMethod_New": "ptr (ptr, ptr)",
    "PyObject_Call": "ptr (ptr, ptr, ptr)",
    "PyObject_CallFunctionObjArgs": "ptr (ptr, ...)",
    "PyObject_CallNoArgs": "ptr (ptr)",
    "PyObject_CallOneArg": "ptr (ptr, ptr)",
    "PyObject_GetAttr": "ptr (ptr, ptr)",
    "PyObject_Vectorcall": "ptr (ptr, ptr, i64, ptr)",
    "PySet_Discard": "i32 (ptr, ptr)",
    "PySet_Size": "i64 (ptr)",
    "PyThreadState_Get": "ptr ()",
    "PyThreadState_GetID": "i64 (ptr)",
    "PyThread_get_thread_ident": "i64 ()",
    "PyTuple_New": "ptr (i64)",
    "PyTuple_Pack": "ptr (i64, ...)",
    "PyTuple_SetItem": "i32 (ptr, i64, ptr)",
    "PyType_GenericAlloc": "ptr (ptr, i64)",
    "PyType_IsSubtype": "i32 (ptr, ptr)",
    "PyWeakref_GetObject": "ptr (ptr)",
    "Py_DecRef": "void (ptr)",
    "Py_IncRef": "void (ptr)",
}


def declarations(names: Iterable[str]) -> str:
    """What a module declares to call these functions."""
    lines = []
    for name in names:
        result, arguments = TYPES[name].split(" ", 1)
        lines.append(f"declare {result} @{name}{arguments}")
    return "\n".join([*lines, ""])
