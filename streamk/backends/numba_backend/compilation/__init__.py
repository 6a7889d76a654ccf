"""How functions are compiled, cached, and called by their addresses."""
