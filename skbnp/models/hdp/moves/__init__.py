"""Moves of topics."""
