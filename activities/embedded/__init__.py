"""A toy model in a process of its own, for trying Mull without a key."""
