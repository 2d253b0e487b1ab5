"""Services: a named promise about answers, kept by a ladder of models that a policy switches between."""
