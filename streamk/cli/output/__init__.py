"""Output of the commands: tables, the figures of a run, its report."""
