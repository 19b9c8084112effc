"""Outside: everything that a captured run reads in Python besides its inputs.

A call may be replayed only if all of it is known and unchanged. Other packages import
`outside_reads` (the values that a function reads, compared in every replay), `run_observer` (which
code a run executes, and which calls into C it makes).
"""
