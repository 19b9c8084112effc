"""Everything that knows the layout of CPython's objects."""
