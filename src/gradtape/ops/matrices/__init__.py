"""Ops on matrices: products, systems, decompositions, Fourier transforms.

Door: the public functions of each module, which `gradtape.linalg` and `gradtape.fft` export; for
other rooms `contraction.MATMUL` and `einsum.EINSUM`, to which all sums of products are reduced.
"""
