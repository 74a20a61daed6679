"""What models share: statistics of components, priors over words and over trees."""
