"""Ops on matrices: products, systems, decompositions, Fourier transforms.

Door: the public functions of each module, exported by `gradtape.linalg` and `gradtape.fft`; for
other rooms `contraction.MATMUL` and `einsum.EINSUM`, in which all sums of products end.
"""
