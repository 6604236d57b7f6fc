"""The core: what the words mean and how decisions are made.

Pure: the standard library, pydantic, and libraries that compute and touch nothing, such as
markdown-it-py. No clock, randomness, network or Temporal.
"""
