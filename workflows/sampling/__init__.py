"""What a run of self-consistency does: its samples, their meanings, and how it is seen."""
