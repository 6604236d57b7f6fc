"""Amounts and moments in words, the same for every run."""
