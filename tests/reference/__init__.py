"""What the tests hold the code to: every algorithm as plainly as its paper states it."""
