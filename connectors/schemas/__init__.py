"""Schemas of records: where they are kept, and how records are read and written by them."""
