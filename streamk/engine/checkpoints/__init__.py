"""Checkpoints on the disk: written whole, signed, locked, read back or refused."""
