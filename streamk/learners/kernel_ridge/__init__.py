"""Kernel ridge regression on a stream, with the events themselves as centers."""
