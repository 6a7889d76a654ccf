"""The cost of holding events until their labels come."""
