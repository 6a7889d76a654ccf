"""A learner on the Nyström features of landmarks that follow the stream (incremental oASIS)."""
