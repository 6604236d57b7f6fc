"""Measure a stopping rule, a judge or a method on your own data."""
