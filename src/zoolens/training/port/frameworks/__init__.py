"""Live networks of users, one file for each framework, in the worker process that runs the user's code."""
