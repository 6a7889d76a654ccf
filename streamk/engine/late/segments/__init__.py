"""What waits for long, on the disk: files of many rows each, found by their keys."""
