"""Hot paths for `asv continuous`: each case is small, and compiled before it is timed."""
