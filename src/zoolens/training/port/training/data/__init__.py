"""What both sides of a port are trained on: datasets, arrays and recorded streams, batch by batch."""
