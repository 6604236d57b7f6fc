"""The core: what the words mean and how decisions are made.

Pure: only the standard library and pydantic. No clock, randomness, network or Temporal.
"""
