"""Programs that run in the sandbox beside the code under test, on the standard library alone."""
