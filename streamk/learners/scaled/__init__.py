"""A learner of one kernel behind running scales of its columns and labels."""
