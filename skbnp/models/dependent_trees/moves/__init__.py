"""Moves of dependent trees: records of them, and where they come from."""
