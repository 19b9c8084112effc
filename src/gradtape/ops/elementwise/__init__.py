"""Ops that are computed element by element.

Public interface: the functions and Ops of `unary`, `arithmetic`, `complexes`, `special` and
`bessel`; `random` for distributions. Kernels compute some ops by the formulas of `compositions` and
`complex_formulas`.
"""
