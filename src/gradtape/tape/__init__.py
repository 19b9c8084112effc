"""Derivatives that users ask for: tapes, accumulators, functional transforms, matrices."""
