"""Running code against its tests: programs for the sandbox, and reports of their output."""
