"""Ops on matrices: products, systems, decompositions, Fourier transforms."""
