"""The stopping rules: the source's four modes, and those beyond it."""
