"""From a parsed query and an index to a plan: reference, candidates, predicates and guarantees."""
