"""Running untrusted code: a port, the backends behind it, and the activity that uses it."""
