"""Running scales of columns and labels: each event is scaled by those before it."""
