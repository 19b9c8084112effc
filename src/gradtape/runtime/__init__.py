"""Plan and run: programs scheduled once, cached by structure, run many times."""
