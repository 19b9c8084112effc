"""Roots, fixed points and minima with their derivatives, and adapters for SciPy."""
