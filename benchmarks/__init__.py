"""Benchmarks of gradtape and its peers, run by `make bench`. See docs/benchmarks.md."""
