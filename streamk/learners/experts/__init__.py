"""The pool of experts of the multi-kernel learner: its arrays, their growth, their saved state."""
