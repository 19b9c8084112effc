"""Ops that are computed element by element."""
