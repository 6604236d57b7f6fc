"""A run of the agent in words: in the terminal, on pages, and in the Web UI."""
