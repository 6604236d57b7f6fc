"""The outside world: one file or folder for each external system, behind a port."""
