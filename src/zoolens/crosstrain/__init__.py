"""One recipe, several frameworks: where they train apart, by how much more than seed noise, and why."""
