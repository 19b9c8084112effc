"""What a program is: specs, ops, nodes, recordings and programs."""
