"""Ops that are computed element by element.

Door: the public functions of `unary`, `arithmetic`, `complexes` and `special`, and their Ops;
`random`, whose bits all distributions are made of. `compositions` and `complex_formulas` are how
kernels compute some.
"""
