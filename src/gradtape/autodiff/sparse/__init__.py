"""Structure of derivatives: which entries can be nonzero, and how few products give all of them.

From a program to a sparse matrix, as a caller of this package computes it:

```
(pattern,) = detect([output], source, known)      # the entries that can be nonzero
coloured = colour(pattern)                         # the entries that one product carries together
forward = one JVP per row of coloured.forward_seeds()     # shape (colours, output.size), or none
reverse = one VJP per row of coloured.reverse_seeds()     # shape (colours, source.size), or none
data = concatenate([forward.ravel(), reverse.ravel()])[coloured.positions]
matrix = csr_array((data, pattern.indices, pattern.indptr), shape=pattern.shape)
```

For a Hessian, `detect_hessian` and `colour_symmetric` take the first two places, and the products
are Hessian-vector products with `forward_seeds()`.

Everything here is a function of structure. `detect` reads no floating-point value, only the
integers in `known` that index, so a pattern holds for all points. `jacobian_pattern` keeps it under
the program and the contents of the leaves that `index_leaves` lists.

Other packages import:

- `detect`: `detect`, `detect_hessian`, `index_leaves`
- `pattern`: `Pattern` and `pattern_of`, which makes one from a user's matrix
- `choose_colouring`: `colour`, `colour_symmetric` and their result `Coloured`
- `greedy`: the loops that `compiler.emit.integer_loops` compiles
"""
