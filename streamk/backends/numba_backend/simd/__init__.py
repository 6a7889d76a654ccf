"""Explicit vectors, for loops that the vectorizer does not understand."""
