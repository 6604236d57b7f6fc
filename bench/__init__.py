"""Every number in the README and the docs comes from a command here."""
