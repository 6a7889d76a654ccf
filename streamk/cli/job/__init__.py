"""Groups of options of `streamk run`, and the parts of a job that they ask for."""
