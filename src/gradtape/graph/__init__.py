"""What a program is: specs, ops, nodes and closed programs. No values live here.

Door, what other rooms import:

- `spec`: `Spec` and `spec`, shape and dtype of a value
- `math_function`, `vector_code`: functions, and types of rules, by which kernels compute ops
- `op`: `Op`, `declare` and the registry; `facts`: the words in which an Op describes itself
- `operators`: the ops that graphs apply by themselves, filled by `ops`
- `node`: `Node`, `apply`, `constant` and the tables in which nodes are interned
- `program`: `Program`, a closed static graph, and how it is printed
- `walk`: `topological`, `dependents`, `substitute`, `rebuilt`
- `rows`: `Rows`, a cotangent that is zero but for some rows
- `hooks`: the calls from lower rooms into upper ones
- `lines`, `provenance`: the user's line of an op, for errors and for debugging
- `interrupts`: what signal handlers raised; `weak_table`: interning without Python callbacks
- `locks`, `verify`: locks that survive a fork; the check of programs in tests
"""
