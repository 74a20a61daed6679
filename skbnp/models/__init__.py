"""Models: state, sufficient statistics, updates, objectives. No loop over iterations."""
