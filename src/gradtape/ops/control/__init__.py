"""Loops and branches as ops that hold programs."""
