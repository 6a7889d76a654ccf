"""What a job tells about itself: coverage of intervals and sets, and alarms."""
