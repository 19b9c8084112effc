"""Ops that make, move, join, read and write elements of arrays."""
