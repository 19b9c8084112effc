"""TensorFlow 1: graphs of deferred calls, and sessions that run them.

Other packages import:

- symbolic: Symbolic (a call in a graph), Placeholder, Run, and `symbolic_parts` of a nest
- graphs: Graph, and which graph is being built
- session: Session
- variables, nn, train, renamed: the content of `tf.compat.v1`

While graphs are in use, base/dispatch.py passes calls to symbolic.py, which registers itself
there, because base/ lies below this package and cannot import it.
"""
