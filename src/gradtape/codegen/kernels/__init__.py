"""A fused loop becomes a kernel: structure, loops and memory as vector IR."""
