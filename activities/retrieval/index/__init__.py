"""The index of a folder on disk: what is in it, keeping it fresh, and searching it."""
