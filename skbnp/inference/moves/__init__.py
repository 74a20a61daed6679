"""Moves: proposals that change the number of components, and their exact scores."""
