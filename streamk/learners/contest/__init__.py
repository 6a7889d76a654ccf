"""A champion that predicts, and challengers that learn beside it."""
