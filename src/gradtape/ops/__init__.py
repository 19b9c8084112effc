"""What each op means: one declaration per op, grouped by family."""
