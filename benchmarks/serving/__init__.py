"""`streamk serve` under load."""
