"""Learners and landmarks under the protocols of other libraries, `river` and `sklearn`."""
