"""Programs: specs, ops, nodes and closed programs. No values live here.

Other packages import:

- `spec`: `Spec` and `spec`, shape and dtype of a value
- `math_function`, `vector_code`: functions, and types of rules, by which kernels compute ops
- `op`: `Op`, `declare` and the registry; `op_facts`: the terms in which an Op describes itself
- `operators`: the ops that graphs apply by themselves, filled by `ops`
- `node`: `Node`, `apply`, `constant` and the tables in which nodes are interned
- `program`: `Program`, a closed static graph, and how it is printed
- `derived`: `Fact`, the key of what is derived from a table or a program and remembered there
- `walk`: `topological`, `dependents`, `substitute`, `rebuilt`
- `row_cotangents`: `Rows`, a cotangent that is zero but for some rows
- `hooks`: calls from a package into one that imports it
- `origin`: the user's line of an op, for errors, profiles and debugging
- `verify`: the check of programs in tests
"""

from gradtape.ir.derived import Fact, of_structure
from gradtape.ir.math_function import MathFunction, NotLowered
from gradtape.ir.node import (
    LEAF,
    PICK,
    Node,
    apart_from_recorded,
    apply,
    constant,
    constant_value,
    outputs,
    pick,
    placeholder,
    scratch,
)
from gradtape.ir.op import REGISTRY, Op, Rule, Undefined, declare
from gradtape.ir.op_facts import Accumulation, Join, Linear, View
from gradtape.ir.operators import OPERATORS
from gradtape.ir.origin import user_line, warn
from gradtape.ir.program import Program, closed
from gradtape.ir.row_cotangents import Rows
from gradtape.ir.spec import Shape, Spec, spec
from gradtape.ir.walk import dependents, rebuilt, substitute, topological
