"""Ops that are computed element by element.

Door: the public functions and Ops of `unary`, `arithmetic`, `complexes`, `special` and `bessel`;
`random` for distributions. Kernels compute some ops by the formulas of `compositions` and
`complex_formulas`.
"""
