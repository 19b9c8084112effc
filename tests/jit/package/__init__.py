"""A package with a function that imports from it."""
