"""Events and labels that wait: in memory, and on the disk in files, found by their keys."""
