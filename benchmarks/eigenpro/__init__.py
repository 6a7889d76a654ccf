"""Large kernel models on centers of their own, beside their paper and beside other learners."""
