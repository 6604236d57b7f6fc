"""The core: what the words mean and how decisions are made.

Pure: the standard library and pydantic alone. No clock, no chance, no network, no Temporal.
"""
