"""The form of a text, and whether it is whole."""
