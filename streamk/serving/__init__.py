"""Models served over HTTP, and the live page of a job."""
