"""Where a pool's arrays lie, and how compiled code finds them."""
