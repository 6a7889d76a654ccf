"""Large kernel models on centers of their own, trained on all that passes by."""
