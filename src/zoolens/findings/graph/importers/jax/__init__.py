"""JAX functions as graphs: the operations that a function of parameters and inputs is made of."""
