"""Observation of a job: samples of its predictions with their reasons, and of bad events."""
