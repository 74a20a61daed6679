"""The HDP by direct assignment, mean-field and collapsed."""
