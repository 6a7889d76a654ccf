"""The past of a stream as columns of its next event: labels that are known, and entities."""
