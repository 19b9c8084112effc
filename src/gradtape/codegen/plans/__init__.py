"""The native interpreter of plans: thread team, loops and branches, matrix products."""
