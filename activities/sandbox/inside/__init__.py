"""What runs inside the sandbox before a program does: standard library alone, and nothing of Mull.

The worker compiles these files and hands them to the sandbox's Python, which can't see them.
"""
