"""Where events come from and where predictions go: Kafka, files, standard streams, memory.

This package knows nothing of learning and imports nothing of `streamk`.
"""
