"""The experts' loops in explicit vectors; a module's number is that of the numbers in a vector."""
