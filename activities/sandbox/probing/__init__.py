"""What the self-test tries: programs, and what of the worker they must not reach."""
