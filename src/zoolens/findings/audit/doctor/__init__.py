"""Is the preprocessing that a manifest declares the one the model was trained with?

variants → bench (measure one, through the ordinary evaluation) → search (which is best) → verdict (what it means)
"""
