"""The loop: consume, predict, emit, learn, measure, checkpoint."""
