"""Removes the data of entities from the saved state of a job."""
