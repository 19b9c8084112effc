"""Program to derivative program: differentiation and batching, built from each op's own rules.

Other packages import:

- `reverse`: `reverse`, cotangents from targets back to sources
- `forward`: `forward`, tangents from sources on to targets
- `cotangent`: `Rows` and `Slope`, the forms that a cotangent has
- `batch`: `batch`, `Batching`, the graph of one example made into that of many
- `jacobian`: `jacobian`, `batch_jacobian`, `products` and the `Question` they answer
- `seeded`: `Seeded`, the response of a node to many seeds
- `independence`: `check_independence`, whether the examples of a batch stay apart
"""
