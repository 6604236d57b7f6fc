"""What runs inside the sandbox beside the code under test, by the standard library alone."""
