"""The layer-wise bound on a twin: operator norms, Lipschitz constants and how differences spread."""
