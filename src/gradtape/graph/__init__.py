"""What a program is: specs, ops, nodes and closed programs. No values live here.

Door, what other rooms import:

- `spec`: `Spec` and `spec`, shape and dtype of a value
- `op`: `Op`, `declare` and the registry
- `node`: `Node`, `apply`, `constant` and the tables in which nodes are interned
- `program`: `Program`, a closed static graph, and how it is printed
- `walk`: `topological`, `dependents`, `substitute`
- `rows`: `Rows`, a cotangent that is zero but for some rows
- `hooks`: the calls from lower rooms into upper ones
- `lines`, `provenance`: the user's line of an op, for errors and for debugging
- `locks`, `verify`: locks that survive a fork; the check of programs in tests
"""
