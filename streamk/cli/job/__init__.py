"""Groups of options of a job, `streamk run` or `predict`, and the parts that they ask for."""
