"""Completion of commands, options and files by the shell."""
