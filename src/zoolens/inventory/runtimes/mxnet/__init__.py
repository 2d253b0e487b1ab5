"""MXNet symbols."""
