"""Hierarchical component analysis: a tree of directions for continuous data."""
