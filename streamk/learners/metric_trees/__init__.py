"""The function of a feature machine on a stream: a tree of leaves that are solved for."""
