"""Training of a user's Keras model: its steps, what decides about them, and how that is changed."""
