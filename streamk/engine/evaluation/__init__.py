"""Progressive validation: figures of predictions made before their labels were learned."""
