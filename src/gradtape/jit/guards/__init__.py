"""Guards: what a function names outside itself, found once and compared before every replay.

`collect` finds it: `names` reads bytecode, and lists what a replay cannot repeat. `guards`
compares it.
"""
