"""The nested CRP by walks, for Gibbs sampling."""
