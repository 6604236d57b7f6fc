"""Searching by meaning, with an embedding model."""
