"""Structure of Jacobians and Hessians: which entries can be nonzero, and how few products give all.

From a program to a sparse matrix, as a caller of this folder goes about it:

```
(pattern,) = detect([output], source, known)      # which entries can be nonzero
coloured = colour(pattern)                         # which of them one product can carry together
forward = one JVP per row of coloured.forward_seeds()     # shape (colours, output.size), or none
reverse = one VJP per row of coloured.reverse_seeds()     # shape (colours, source.size), or none
data = concatenate([forward.ravel(), reverse.ravel()])[coloured.positions]
matrix = csr_array((data, pattern.indices, pattern.indptr), shape=pattern.shape)
```

For a Hessian, `detect_hessian` and `colour_symmetric` take the first two places, and the products
are Hessian-vector products with `forward_seeds()`.

Everything here is a function of structure. `detect` looks at no floating-point value, only at the
integers in `known` that say where indexing reads and writes, so a pattern holds for all points and
may be kept under the key: program, and contents of the leaves that `index_leaves` lists, which
`recording.structure.known_positions` finds in a recording.
"""
