"""What users hold: tensors, variables, and the protocols they speak."""
