"""What a prompt, a reply and a value say: examples, tests, code, names and literals."""
