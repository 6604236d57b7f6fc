"""Testing code: the programs that run in the sandbox, and what is made of what they print."""
