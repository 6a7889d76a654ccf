"""What waits: in memory in slots, and on the disk in files of many rows, found by their keys."""
