"""Guards: what a function names outside itself, found once and compared before every replay.

`collect` finds it: `names` reads bytecode, and knows what a replay cannot repeat. `guards`
compares it.
"""
