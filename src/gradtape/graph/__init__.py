"""What a program is: specs, ops, nodes and closed programs. No values live here."""
