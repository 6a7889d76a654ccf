"""Places of a pool's arrays, and the way compiled code finds them."""
