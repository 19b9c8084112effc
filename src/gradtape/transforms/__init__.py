"""Graph to graph: forward and reverse differentiation, built from each op's own rules."""
