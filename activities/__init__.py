"""The outside world: one file for each thing outside, each behind a port."""
