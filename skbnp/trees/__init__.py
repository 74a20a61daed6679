"""Ordered trees as arrays: their shape, their edits, what users see. No probability."""

from skbnp.trees.tree import Tree
from skbnp.trees.view import TreeView

__all__ = ["Tree", "TreeView"]
