"""TensorFlow's functions of tensors, a module for each subject.

A module's `__all__` lists its public functions, and the namespaces `tf`, `tf.math`, `tf.linalg`,
`tf.nn`, `tf.random` and `tf.signal` export them. A function is either a row of a table (see
elementwise.py and reductions.py) or has a body under `@operation`.

Other packages import the public functions, and:

- indexing: `as_indices`, which checks integer indices
- elementwise: `unary`, `binary` and `activation`, which make functions from rows
- random_numbers: `bernoulli_mask`, for dropout
"""
