"""What live objects of a framework show: first weights, batch norms, paddings, as plain facts."""
