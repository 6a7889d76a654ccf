"""What the commands print: tables, the figures of a run, its report."""
