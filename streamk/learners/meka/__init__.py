"""A learner on the features of MEKA, which is factorized again as the stream goes on (Si 2017)."""
