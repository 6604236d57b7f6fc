"""What a run of the agent does: its nodes, the way between them, and how it is seen."""
