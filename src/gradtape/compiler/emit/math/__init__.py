"""Mathematical functions for kernels, by library, as polynomials or as formulas.

Functions are the constants of `gradtape.ops.families.math_functions` and the compositions of ops.

- `vectormath`: the implementation of a function of floats
- `complexmath`: the implementation of a function of complex numbers
- `polynomials`: elementary functions as vector code
- `mathlibrary`: functions of libmvec, libm and SciPy
- `vectors`: how a function on vectors is written

Other packages import `mathlibrary.preference`, which says where functions come from.
"""
