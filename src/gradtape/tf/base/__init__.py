"""The base of gradtape.tf: tensors, their dtypes and shapes, and the rules to make them.

Other packages import:

- tensor: Tensor, and `adopt`, which makes gradtape's tensors tensors of this class
- conversion: `convert` and `common` (operands to tensors of one dtype), `as_shape`, `as_axes`
- dispatch: the decorators of public functions: `operation`, `effect`, and `documented`,
  for functions that are made from rows
- types: the types of arguments: TensorLike, DTypeLike, ShapeLike, Axis and others
- operators: Python's operators; casting, dtypes, shapes, slices (IndexedSlices), nest, errors,
  scopes: TensorFlow's classes and functions of these names
- suggestions: errors for names that a namespace does not have
"""
