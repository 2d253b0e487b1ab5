"""What there is: models, zoos, datasets and tasks, and the runtimes that run a model on a dataset."""
