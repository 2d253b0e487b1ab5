"""Live networks of torch, Keras and JAX under one contract: run, read and assign tensors, trace the graph."""
