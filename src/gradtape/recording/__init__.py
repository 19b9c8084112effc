"""What is recorded and not yet computed: leaves with values, handles, one recording a thread."""
