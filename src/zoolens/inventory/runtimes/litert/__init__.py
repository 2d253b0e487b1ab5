"""LiteRT (TensorFlow Lite)."""
