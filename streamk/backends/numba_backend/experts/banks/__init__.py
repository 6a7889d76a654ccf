"""Banks of experts: kernels at a ladder of bandwidths, each by several step rules."""
