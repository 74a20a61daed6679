"""Moves of the tree."""
