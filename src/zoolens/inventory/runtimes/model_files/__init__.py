"""Reading model files, which are untrusted, without a framework."""
