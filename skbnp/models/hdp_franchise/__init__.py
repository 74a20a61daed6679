"""The HDP as a Chinese restaurant franchise, for Gibbs sampling."""
