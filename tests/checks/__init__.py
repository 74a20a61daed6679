"""Laws that every public estimator obeys.

`estimators.py` holds the list of estimators: a new class joins there, and nowhere else.
"""
