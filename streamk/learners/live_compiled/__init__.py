"""Parts of a learner that is served by a compiled copy of itself, `streamk.learners.live`."""
