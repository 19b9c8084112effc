"""Interop: what other libraries call, and what gradtape calls of them.

- `numpy_protocols`: NumPy's functions on tensors (NEP 13, NEP 18);
- `solve`: roots, fixed points and minima with SciPy's solvers, and adapters for SciPy.
"""
