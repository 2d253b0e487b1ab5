"""The layer-wise bound on a stitched model: operator norms, Lipschitz constants and how differences spread."""
