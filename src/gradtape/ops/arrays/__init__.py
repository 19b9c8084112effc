"""Ops that make, move, join, read and write elements of arrays.

Public interface: the functions of each module; for other packages the Ops (`RESHAPE`, `GATHER`,
`CONCAT` …) and the functions on nodes that rules are written with (`movement.reshape_node`,
`slicing`).
"""
