"""Dependent trees by slices of their weights, for Gibbs sampling."""
