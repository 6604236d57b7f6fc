"""Whether reflection is worth it: the same questions by several methods, side by side."""
