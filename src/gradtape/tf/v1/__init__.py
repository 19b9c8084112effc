"""TensorFlow 1: graphs of calls that are noted down, and sessions that run them.

Other rooms import from here:

- symbolic: Symbolic (a call in a graph), Placeholder, Run, and `symbolic_parts` of a nest
- graphs: Graph, and which graph is being built
- session: Session
- variables, functions, nn, train, renamed: the content of `tf.compat.v1`

base/dispatch.py hands calls to runs.py while graphs are in use, through a door that `install`
fills: that room is below this one and cannot import it.
"""
