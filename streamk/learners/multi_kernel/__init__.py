"""The learner without settings: many kernels and step sizes, mixed by how well they predict."""
