"""Fast prediction, beside its paper: Hsieh, Si and Dhillon, NIPS 2014."""
