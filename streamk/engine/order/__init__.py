"""One order of events out of many partitions, which depends on the log alone."""
