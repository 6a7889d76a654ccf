"""Learners whose function is made anew in the background, out of events that they keep."""
