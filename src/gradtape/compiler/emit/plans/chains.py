"""Chains, as IR: several kernels that run for some rows at a time, one after the other.

Loops that work row by row on the same arrays, as the passes of a softmax do, read an array from
memory once for each loop if each goes over all rows. A chain lets all of them work on as many rows
as stay in the second cache, then on the next ones. `compiler.lower.kernel_chains` finds chains.
"""

from __future__ import annotations

from gradtape.compiler.emit.plans.instructions import kernel_routine

# Words of a member of a chain: its function, its arguments, and the numbers of its range in a row.
_MEMBER = ("function", "args", "scale")


def chain_ir() -> str:
    """The module with `chain`, a kernel whose arguments are rows at once, a count, and members."""
    r = kernel_routine("chain")
    at_once, count = r.word("%args"), r.word("%args", 8)
    members = r.at("%args", 16)
    rows = r.subtract("%hi", "%lo")
    blocks = r.let(f"sdiv i64 {r.subtract(r.add(rows, at_once), 1)}, {at_once}")
    with r.loop(blocks) as block:
        first = r.add("%lo", r.multiply(block, at_once))
        end = r.add(first, at_once)
        last = r.select(r.compare("slt", end, "%hi"), end, "%hi")
        with r.loop(count) as number:
            row = r.row(members, number, len(_MEMBER))
            member = r.words(row, _MEMBER, ("function", "args"))
            low, high = (r.multiply(bound, member["scale"]) for bound in (first, last))
            r.do(
                member["function"],
                "ptr %slots",
                f"ptr {member['args']}",
                f"i64 {low}",
                f"i64 {high}",
                "i64 %part",
            )
    r.end("ret void")
    return r.text()
