"""A run of reflection in words: in the terminal, on pages, and in the Web UI."""
