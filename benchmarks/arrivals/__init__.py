"""What really arrives: messy events beside clean ones, and random ones without end."""
