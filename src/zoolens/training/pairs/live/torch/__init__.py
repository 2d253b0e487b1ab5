"""Training of a user's torch network: its steps, what decides about them, and how that is changed."""
