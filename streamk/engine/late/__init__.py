"""Labels that come later than their events, from a source of their own."""
