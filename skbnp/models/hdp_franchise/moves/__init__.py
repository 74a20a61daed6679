"""Moves of tables."""
