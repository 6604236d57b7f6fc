"""Starting a run, and following it to its end."""
