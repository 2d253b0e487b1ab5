"""One side trained once, in its own process: trainable sides, the worker, and what came of each run."""
