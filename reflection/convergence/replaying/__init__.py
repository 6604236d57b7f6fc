"""Recorded answers, replayed through the stopping rules."""
