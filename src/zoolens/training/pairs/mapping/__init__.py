"""Which tensor of one network belongs to which tensor of another, and how its axes turn."""
