"""HTTP for applications of any kind: the server, the guard of its paths, and a page of points."""
