"""How interchangeable two models are, on which inputs, and how surely."""
