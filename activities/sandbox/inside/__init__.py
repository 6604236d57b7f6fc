"""What runs inside the sandbox before a program does, by the standard library alone.

The worker compiles these files and hands them to the sandbox's Python, which can't read them.
"""
