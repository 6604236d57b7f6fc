"""The code path: the code, the tests that it is held to, and what came of them."""
