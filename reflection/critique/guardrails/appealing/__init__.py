"""Texts that speak to their judge, and how they hide it."""
