"""CPython: everything that knows the memory of CPython's objects, behind one door.

Native code stands in for Python in two places: recording an application that was recorded before
(`native_recorder`), and calling a `gt.function` whose signature was called before (`caller`). It
is never needed for a right answer. It is used on interpreters whose layout was checked on real
objects (`objects`), and can be switched off at any time (`switch`).

Door:
- `switch`: the mode (`MODE`, `set_mode`), the reason for Python (`why_python`), `offer` at import.
- `native_recorder`: `install`, `uninstall`, `installed`, the offsets of slots.
- `objects`: `supported`, slot offsets, and wrappers that put native code into a class.
- `caller`, `call_context`: the code of native calls and the words of their contexts, for
  `functions.native`.

The contract. Native code repeats the following of the library's Python code, and a change on one
side is a change on the other; `tests/codegen/cpython` runs the same scenarios through both.

1. Recording: a known application is stamped with the recording's stamp and listed in
   `Recording.nodes`, a Python scalar beside it in `Recording.leaves`, and the new handle in
   `Recording.handles`. The handle has `node`, `recording` and `computed` (None).
2. Calling: the condition of `runs_in_python`; a signature by exact classes, specs and identities,
   at most as much as `Signature.of` takes for equal; the counters of runs.
3. New objects: the slots of `Value(buffer, spec)`, of `Tensor(None, None, value)`, and of a
   `Buffer` on idle memory, with the pool's counters.

Everything else is called: `Variable.replace` and the locks of variables, `allocate` for fresh
memory, the comparison of guards, `unflatten`, and the Python code itself where anything is unusual.

Rules. Native code holds a reference to every object that it touches after Python code could have
run or the GIL was released. It reads the state of its thread again after that. It leaves a call to
Python only before it has changed anything. It raises, never asserts.
"""
