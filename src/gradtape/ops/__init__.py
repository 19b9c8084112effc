"""What each op means: one declaration per op, in rooms by nature."""
