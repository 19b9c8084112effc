"""Guards: what a function names outside itself, found once and compared before every replay.

`collect` finds it: `search` has the state of a search, `names` reads bytecode, and knows what a
replay cannot repeat. `guards` compares it.
"""
