"""Agents that learn from their failures: memories, episodes, and what is decided between them."""
