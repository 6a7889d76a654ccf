"""Entities that are to be forgotten, removed from what a job has saved."""
