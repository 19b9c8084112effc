"""What happened and why: plans, kernels, bad values, checks of ops."""
