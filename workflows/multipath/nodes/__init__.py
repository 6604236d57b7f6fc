"""What is done at each node of the agent: which call, and what becomes of its reply."""
