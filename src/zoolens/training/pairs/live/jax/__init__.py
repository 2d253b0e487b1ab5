"""Training of a user's JAX function: its steps, what decides about them, and how that is changed."""
