"""`streamk init`: look at a stream, and write a job file for it."""

from streamk.cli.init.command import main

__all__ = ["main"]
