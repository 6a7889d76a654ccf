"""Alarms: events by which a job tells that something has changed."""
