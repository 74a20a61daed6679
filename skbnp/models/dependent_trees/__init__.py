"""Trees of topics that grow and drift over epochs, of Hu, Ho, Dubey and Xing (2015)."""
