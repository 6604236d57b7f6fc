"""Self-consistency: many answers to one question, and which of them agree."""
