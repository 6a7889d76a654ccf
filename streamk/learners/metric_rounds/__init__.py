"""Rounds of a recursive feature machine: kernel ridge regression, and the metric it implies."""
