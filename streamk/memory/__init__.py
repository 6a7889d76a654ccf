"""What a stream remembers of itself: its labels, and the past of its entities."""
