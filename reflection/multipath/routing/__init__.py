"""Which path a prompt takes: what the router is asked, and what it says."""
