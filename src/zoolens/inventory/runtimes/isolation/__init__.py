"""A runtime in a worker process: for untrusted files, clashing libraries and cold starts."""
