"""What follows for an op from its nature: the families, and the rules that they share."""
