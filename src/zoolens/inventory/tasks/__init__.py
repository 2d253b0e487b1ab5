"""What an output of a model does: how its answers are kept, judged, compared with others and shown."""
