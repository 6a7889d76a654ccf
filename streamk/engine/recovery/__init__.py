"""Going on after a crash, a restart or a rebalance, and taking over from a dead member."""
