"""Proposals that change the tree of a sampler."""
