"""gt.function: a Python function captured once, and replayed in later calls."""
