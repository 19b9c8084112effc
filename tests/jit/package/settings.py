"""Settings."""

RATE = 1.0
