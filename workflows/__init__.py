"""The order of things: one file a workflow, no arithmetic and no I/O."""
