"""Compiled inner loops. They trust their input; the layers above check it."""
