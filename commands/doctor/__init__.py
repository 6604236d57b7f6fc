"""What is right or wrong with an installation, and what to do about it."""
