"""A report as it is read: its parts, its sentences, and what they cite."""
