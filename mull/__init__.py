"""Mull: what the words mean, how decisions are made, and how a Temporal server is reached.

The core is pure: `agents`, `batch`, `critique`, `multipath`, `sampling`, `turn`, and the modules
that they share (`run`, `request`, `drafts`, `replies`, `sheet`, `details`, `text`) use the standard
library, pydantic, and libraries that compute and touch nothing, such as markdown-it-py: no clock,
randomness, network or Temporal. Beside it are `connection`, `encryption`, `keys` and `telemetry`.
Nothing is imported before it is used, and nothing of Mull's other packages is needed.
"""
