"""Loops and decisions: batches, schedules, threads, the trace of a fit."""
