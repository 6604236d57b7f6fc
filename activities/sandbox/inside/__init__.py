"""The code that the sandbox runs before a program; it needs the standard library alone.

The worker compiles these files for the sandbox's Python, which can't read them.
"""
