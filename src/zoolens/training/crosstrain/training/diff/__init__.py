"""How two frameworks' versions of one architecture differ before any training: definition, defaults, update rules."""
