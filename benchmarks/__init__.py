"""gradtape beside its peers: `make bench`. See docs/benchmarks.md."""
