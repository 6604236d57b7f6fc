"""Runs over HTTP: OpenAI's interface, and the bearer keys that may use it."""
