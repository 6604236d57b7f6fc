"""A run in words: what the terminal, the report and the Web UI say alike."""
