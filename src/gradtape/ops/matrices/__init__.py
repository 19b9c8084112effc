"""Ops on matrices: products, systems, decompositions, Fourier transforms.

Public interface: the functions of each module, which `gradtape.linalg` and `gradtape.fft` export;
for other packages `contraction.MATMUL` and `einsum.EINSUM`, to which all sums of products are
reduced.
"""
