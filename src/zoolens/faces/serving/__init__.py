"""Serving models: a data plane without a transport, REST and gRPC before it, and services that switch models."""
