"""CPython: all code that depends on the memory layout of CPython's objects.

Native code stands in for Python in two places: recording an application that was recorded before
(`native_recorder`), and calling a `gt.function` whose signature was called before (`caller`). It is
never needed for a right result. It is used on interpreters whose layout was checked on real objects
(`objects`), and can be switched off at any time (`switch`).

Other packages import:

- `switch`: the mode (`MODE`, `set_mode`), the reason for Python (`why_python`), `offer` at import.
- `native_recorder`: `install`, `uninstall`, `installed`, the offsets of slots.
- `objects`: `supported`, slot offsets, and wrappers that put native code into a class.
- `caller`, `call_context`: the code of native calls and the words of their contexts, for
  `jit.native`.

The contract. Native code repeats the following of the library's Python code, and a change on one
side is a change on the other; `tests/compiler/cpython` runs the same scenarios through both.

1. Recording: a known application is stamped with the recording's stamp and listed in
   `Recording.log`, a Python scalar beside it in `Recording.leaves`, and the new handle in
   `Recording.handles`. The handle has `node`, `recording` and `computed` (None).
2. Calling: the condition of `runs_in_python`; a signature by exact classes, specs and identities,
   at most as much as `Signature.of` takes for equal; the counters of runs.
3. New objects: the slots of `Value(buffer, spec)`, of `Tensor(None, None, value)`, and of a
   `Buffer` on idle memory, with the pool's counters.

Everything else is called: the assignment of all variables of a step (`tensor.variable_updates`) and
their locks, `allocate` for fresh memory, the comparison of guards, `unflatten`, and the Python code
itself where anything is unusual.

Ownership: nothing native reads memory that it does not hold a reference to. Python code may run
wherever an object is made (a collection), released (a finaliser) or called, and other threads
wherever the GIL is released; any of them may drop functions, tensors, variables and caches. So:

- What is read after such a place is held by a counted reference that was taken before it: the owner
  of a context, which holds its tables and all that they point to; the arguments, values, buffers
  and handles of a call; the table and nodes of a look-up. They are released after the last read.
- What is only borrowed (the recording, its lists, the contexts of a function) is used up to the
  next such place, and then read again. An address is stored only beside a reference to its owner,
  in one object, and both are exchanged together.
- What the code mentions by address lives as long as the process.

A call is left to Python only before it has changed anything. Errors are raised, never asserted, and
an interrupt is never cleared. `tests/compiler/cpython/test_ownership.py` drops everything in the
middle of calls, under an allocator that fills freed memory; `make test-native-memory` runs more
tests that way.
"""
