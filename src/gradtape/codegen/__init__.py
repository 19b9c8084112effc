"""Group to kernel: loop nests as vector IR, and the native code they become."""
