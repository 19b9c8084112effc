"""Derivatives of what a recording holds, found by structure when they were derived before."""
