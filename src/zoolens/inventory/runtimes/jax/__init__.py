"""JAX: exported StableHLO programs, their values and their profile."""
