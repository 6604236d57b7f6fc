"""From the bytes of a file to passages with their lines."""
