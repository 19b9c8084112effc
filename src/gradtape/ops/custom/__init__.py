"""Ops that carry rules or Python code written by users."""
