"""What a run of reflection does: its drafts, its judges, and how it is seen."""
