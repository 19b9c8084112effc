"""Pending work to values: flush, plans bound to a recording, what a live tape keeps."""
