"""Plain values and the rules they follow; no I/O."""
