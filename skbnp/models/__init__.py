"""Models: state, statistics, updates, objectives; no loop over iterations."""
