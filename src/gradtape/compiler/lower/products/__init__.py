"""Matrix products and other sums of products in compiled plans.

`instruction` makes the instruction of a node; `blas` calls the library, and
`tiled_products` chooses and prepares what `compiler.emit.plans.tiles` computes.
"""
