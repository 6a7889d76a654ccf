"""A learner whose stream is cut into shards that learn on replicas, which are merged in rounds."""
