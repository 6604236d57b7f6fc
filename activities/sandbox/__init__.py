"""Running untrusted code: the port with its activity, and the backends behind it."""
