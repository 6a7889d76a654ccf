"""Alarms: what a job tells of itself when something has changed."""
