"""A learner that is served by a compiled copy of itself, kept up to date."""
