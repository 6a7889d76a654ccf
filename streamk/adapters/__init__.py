"""Learners under the protocols of other libraries: `river` and `sklearn`, one module each."""
