"""Which model answers behind an endpoint: `zoolens verify-endpoint`."""
