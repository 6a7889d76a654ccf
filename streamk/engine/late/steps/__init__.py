"""The steps of a batch of events and late labels, followed by a model in their order."""
