"""Log normalisers, expectations and inverses of the distributions the models use."""
