"""Mathematical functions for kernels, by library or as polynomials."""
