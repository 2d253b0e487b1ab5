"""What a query returns: matches, near misses, explanations, charts and pages."""
