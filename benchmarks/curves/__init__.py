"""Total time from the first call to call k, in fresh processes: `make bench-curves`."""
