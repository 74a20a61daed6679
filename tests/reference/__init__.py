"""Slow NumPy and SciPy transcriptions of the mathematics, to test fast code against."""
