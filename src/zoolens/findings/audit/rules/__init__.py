"""From evidence to findings: one module per kind. A rule is a function that yields findings and measures nothing."""
