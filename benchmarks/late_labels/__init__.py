"""What it costs to hold events until their labels come."""
