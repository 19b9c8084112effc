"""Loops, branches and maps over examples that are recorded as one op."""
