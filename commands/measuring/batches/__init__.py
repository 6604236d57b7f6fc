"""Batches as commands make them: what they will cost, their start, their results."""
