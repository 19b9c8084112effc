"""Arguments: which calls of a function have the same signature, and so the same captures.

`signature` sorts the arguments of a call into inputs, which may differ between calls of one
signature, and static values, which are part of its key.
"""
