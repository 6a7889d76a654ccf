"""Drift detectors: delay against false alarms."""
